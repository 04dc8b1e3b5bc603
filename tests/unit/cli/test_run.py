from pathlib import Path
from types import SimpleNamespace

import pytest

from supdocnade.cli import run
from supdocnade.cli.run import describe_records
from supdocnade.errors import InvalidArgument
from supdocnade.folders.photo_folder import ImageRecord


def test_the_one_class_of_added_photographs_is_not_unusual():
    photos = Path("photos")
    records = [ImageRecord(photos / "coast" / name, "coast", None) for name in ("a.jpg", "b.jpg")]
    assert "of one class, coast" in describe_records(records)[0]
    assert describe_records(records, extends=True) == []
    assert describe_records(records[:1], extends=True) == []


def test_a_resumed_run_of_an_earlier_version_has_no_sift_words():
    before = {"features": "marvel", "n_words": 20}
    request = SimpleNamespace(
        settings={"n_sift_words": 50}, explicit=frozenset(), add=None, corrections=None
    )
    assert run._resumed_settings(request, before) == {"n_sift_words": 0, **before}
    request.explicit = frozenset({"n_sift_words"})
    with pytest.raises(InvalidArgument, match="--sift-words must be as in the run to resume, 0"):
        run._resumed_settings(request, before)

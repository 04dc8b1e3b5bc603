from pathlib import Path

from supdocnade.cli.run import describe_records
from supdocnade.folders.photo_folder import ImageRecord


def test_the_one_class_of_added_photographs_is_not_unusual():
    photos = Path("photos")
    records = [ImageRecord(photos / "coast" / name, "coast", None) for name in ("a.jpg", "b.jpg")]
    assert "of one class, coast" in describe_records(records)[0]
    assert describe_records(records, extends=True) == []
    assert describe_records(records[:1], extends=True) == []

from collections import Counter
from pathlib import Path

from tests.scene_model import columns, scenes, small_model

from supdocnade.cli.train import describe_records, model_to_dict, print_summary
from supdocnade.folders.photo_folder import ImageRecord


def test_the_one_class_of_added_photographs_is_not_unusual():
    photos = Path("photos")
    records = [ImageRecord(photos / "coast" / name, "coast", None) for name in ("a.jpg", "b.jpg")]
    assert "every photograph will be called coast" in describe_records(records)[0]
    assert describe_records(records, extends=True) == []
    assert describe_records(records[:1], extends=True) == []


def test_rare_tags_are_named(capsys):
    model = small_model()
    counts = Counter(tag for tags in columns(scenes())[2] for tag in set(tags))
    rare = sorted(tag for tag, count in counts.items() if count < 2)
    assert model_to_dict(model, Path("m"), {})["rare_tags"] == rare
    assert len(rare) + len(model.tag_names_) == len(counts)
    print_summary(model, Path("m"))
    out = capsys.readouterr().out
    expected = f"{len(rare)} tag{'s' * (len(rare) > 1)} not learned: on fewer than 2 photographs"
    assert (expected in out) == bool(rare)

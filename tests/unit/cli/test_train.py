from collections import Counter
from pathlib import Path

from tests.scene_model import columns, scenes, small_model

from supdocnade.cli.train import _print_summary, model_to_dict


def test_rare_tags_are_named(capsys):
    model = small_model()
    counts = Counter(tag for tags in columns(scenes())[2] for tag in set(tags))
    rare = sorted(tag for tag, count in counts.items() if count < 2)
    assert model_to_dict(model, Path("m"), {})["rare_tags"] == rare
    assert len(rare) + len(model.tag_names_) == len(counts)
    _print_summary(model, Path("m"))
    out = capsys.readouterr().out
    expected = f"{len(rare)} tag{'s' * (len(rare) > 1)} on fewer than 2 photographs not learned"
    assert (expected in out) == bool(rare)

import pytest

from supdocnade.cli.xmp import Sidecars
from supdocnade.errors import StorageError
from supdocnade.scene.prediction import Prediction


def prediction(name, label="coast", tags=("sea", "sky"), unsure=False):
    given = tuple((tag, 0.9) for tag in tags)
    return Prediction(
        name=str(name),
        label=label,
        probability=0.9,
        unsure=unsure,
        probabilities={},
        ranked_tags=given,
        tags=given,
    )


def test_names_of_sidecars():
    assert Sidecars().path_of("x/a.b.jpg").name == "a.b.jpg.xmp"
    assert Sidecars(by_stem=True).path_of("x/a.b.jpg").name == "a.b.xmp"


def test_the_label_is_a_keyword_on_request_unless_unsure():
    assert Sidecars().keywords_of(prediction("a.jpg")) == ["sea", "sky"]
    labelled = Sidecars(with_label=True)
    assert labelled.keywords_of(prediction("a.jpg", label="sea")) == ["sea", "sky"]
    assert labelled.keywords_of(prediction("a.jpg")) == ["coast", "sea", "sky"]
    assert labelled.keywords_of(prediction("a.jpg", unsure=True)) == ["sea", "sky"]
    assert Sidecars().keywords_of(prediction("a.jpg"), 1) == ["sea"]


def test_nothing_is_written_without_keywords_or_in_a_dry_run(tmp_path):
    assert Sidecars().write(prediction(tmp_path / "a.jpg", tags=())) == ""
    assert "would write" in Sidecars(dry_run=True).write(prediction(tmp_path / "a.jpg"))
    assert not list(tmp_path.iterdir())


def test_two_photographs_do_not_share_a_sidecar(tmp_path):
    sidecars = Sidecars(by_stem=True)
    sidecars.write(prediction(tmp_path / "a.jpg"))
    with pytest.raises(StorageError, match=r"a\.png"):
        sidecars.write(prediction(tmp_path / "a.png"))


def test_a_sidecar_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(StorageError, match="cannot be written"):
        Sidecars().write(prediction(tmp_path / ("x" * 250 + ".jpg")))
    (tmp_path / "b.jpg.xmp").mkdir()
    with pytest.raises(StorageError, match="cannot be read"):
        Sidecars().write(prediction(tmp_path / "b.jpg"))

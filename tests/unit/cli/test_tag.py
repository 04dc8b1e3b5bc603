import resource
from dataclasses import replace

import pytest
from PIL import Image
from tests.textures import iptc_segment, plain_packet, stripes

from supdocnade.cli.model_commands import Tag
from supdocnade.cli.tag import Sidecars, UnwritableRecord, append_text, undo_sidecars
from supdocnade.errors import StorageError
from supdocnade.folders.keywords import add_keywords, read_keywords
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


def test_a_record_has_whole_lines_after_a_full_disk(tmp_path):
    record = tmp_path / "record"
    append_text(record, "first\n")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (9, limits[1]))
    try:
        with pytest.raises(StorageError, match="record cannot be written: File too large"):
            append_text(record, "second\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert record.read_text() == "first\n"


def test_a_record_that_cannot_be_written_is_an_error_of_its_own(tmp_path):
    sidecars = Sidecars(Tag(record=tmp_path))  # A folder.
    with pytest.raises(UnwritableRecord, match="cannot be written"):
        sidecars.write(prediction(tmp_path / "a.jpg"))
    assert not (tmp_path / "a.jpg.xmp").exists()


def test_names_of_sidecars():
    assert Sidecars(Tag()).path_of("x/a.b.jpg").name == "a.b.jpg.xmp"
    assert Sidecars(Tag(sidecar="stem")).path_of("x/a.b.jpg").name == "a.b.xmp"


def test_the_label_is_a_keyword_on_request_unless_unsure():
    assert Sidecars(Tag()).keywords_of(prediction("a.jpg")) == ["sea", "sky"]
    labelled = Sidecars(Tag(with_class=True))
    assert labelled.keywords_of(prediction("a.jpg", label="sea")) == ["sea", "sky"]
    assert labelled.keywords_of(prediction("a.jpg")) == ["coast", "sea", "sky"]
    assert labelled.keywords_of(prediction("a.jpg", unsure=True)) == ["sea", "sky"]
    unlike = replace(prediction("a.jpg"), unfamiliar=True)
    assert labelled.keywords_of(unlike) == []


def test_photographs_unlike_those_of_training_get_no_sidecar(tmp_path):
    sidecars, path = Sidecars(Tag()), tmp_path / "a.jpg"
    Image.fromarray(stripes(0)).save(path)
    assert sidecars.write(replace(prediction(str(path)), unfamiliar=True)) is None
    assert list(tmp_path.iterdir()) == [path]
    unlike = "none for 1 photograph unlike the training photographs"
    assert sidecars.summary() == f"wrote 0 sidecars, {unlike}"


def test_keywords_that_the_photograph_has_elsewhere_are_not_written(tmp_path):
    photo, stem, full = (tmp_path / name for name in ("a.jpg", "a.xmp", "a.jpg.xmp"))
    iptc = iptc_segment(((2, 25), b"Sand"))
    Image.fromarray(stripes(0)).save(photo, extra=iptc, xmp=plain_packet("Sky"))
    stem.write_bytes(plain_packet("SEA"))
    before = [photo.read_bytes(), stem.read_bytes()]
    given = prediction(photo, tags=("sea", "sky", "sand"))
    assert Sidecars(Tag()).write(given) is None
    assert Sidecars(Tag(sidecar="stem")).write(given) is None
    assert not full.exists()
    Sidecars(Tag()).write(prediction(photo, tags=("sea", "ship", "sky")))
    assert read_keywords(full.read_bytes()) == ["ship"]
    assert [photo.read_bytes(), stem.read_bytes()] == before
    # A prediction in one sidecar does not keep another photo manager from getting it.
    Sidecars(Tag(sidecar="stem")).write(prediction(photo, tags=("ship", "sky")))
    assert read_keywords(stem.read_bytes()) == ["SEA", "ship"]


def test_nothing_is_written_without_keywords_or_in_a_dry_run(tmp_path):
    assert Sidecars(Tag()).write(prediction(tmp_path / "a.jpg", tags=())) is None
    dry = Sidecars(Tag(dry_run=True))
    assert dry.write(prediction(tmp_path / "a.jpg"))["keywords"] == ["sea", "sky"]
    assert dry.summary() == "would write 1 sidecar"
    assert not list(tmp_path.iterdir())


def test_two_photographs_do_not_share_a_sidecar(tmp_path):
    sidecars = Sidecars(Tag(sidecar="stem"))
    sidecars.write(prediction(tmp_path / "a.jpg"))
    with pytest.raises(StorageError, match=r"a\.png"):
        sidecars.write(prediction(tmp_path / "a.png"))


def test_only_probable_keywords_are_written():
    sure = prediction("a.jpg")
    assert Sidecars(Tag(min_probability=0.95)).keywords_of(sure) == []
    assert Sidecars(Tag(min_probability=0.95, with_class=True)).keywords_of(sure) == []
    assert Sidecars(Tag(), {"sea": 0.95, "sky": 0.9}).keywords_of(sure) == ["sky"]


def test_undoing_a_record_restores_all_sidecars(tmp_path):
    record, other = tmp_path / "record", tmp_path / "b.jpg.xmp"
    Sidecars(Tag()).write(prediction(tmp_path / "b.jpg", tags=["mine"]))
    before = other.read_bytes()
    for tags in (["sea"], ["sea", "sky"]):
        sidecars = Sidecars(Tag(record=record))
        for name in ("a.jpg", "b.jpg", "c.jpg"):
            sidecars.write(prediction(tmp_path / name, tags=tags))
    assert sidecars.n_written == 3
    changed = tmp_path / "c.jpg.xmp"
    changed.write_bytes(add_keywords(changed.read_bytes(), ["later"]))
    assert len(list(undo_sidecars(record, dry_run=True))) == 6
    messages = list(undo_sidecars(record))
    assert sum("deleted" in message for message in messages) == 1
    assert not (tmp_path / "a.jpg.xmp").exists()
    assert other.read_bytes() == before
    assert read_keywords(changed.read_bytes()) == ["later"]
    assert list(undo_sidecars(record)) == []


def test_undo_goes_on_after_a_damaged_sidecar(tmp_path):
    record, sidecars = tmp_path / "record", Sidecars(Tag(record=tmp_path / "record"))
    for name in ("a.jpg", "b.jpg"):
        sidecars.write(prediction(tmp_path / name))
    (tmp_path / "b.jpg.xmp").write_text("not xml")
    error, message = undo_sidecars(record)
    assert "b.jpg.xmp is left unchanged" in str(error)
    assert "deleted" in message


@pytest.mark.parametrize(
    "line",
    [
        *("no json", "[]", '{"sidecar": "a.xmp"}'),
        '{"sidecar": 1, "created": true, "keywords": []}',
        '{"sidecar": "a.xmp", "created": true, "keywords": "sea"}',
    ],
)
def test_a_record_is_checked_before_anything_is_undone(tmp_path, line):
    record = tmp_path / "record"
    Sidecars(Tag(record=record)).write(prediction(tmp_path / "a.jpg"))
    record.write_text(f"{line}\n{record.read_text()}")
    with pytest.raises(StorageError, match="record, line 1: expected a line of a record"):
        list(undo_sidecars(record))
    assert (tmp_path / "a.jpg.xmp").exists()

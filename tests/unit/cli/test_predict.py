import pytest
from tests.commands import draw, supdocnade
from tests.scene_model import small_model

from supdocnade.cli.predict import write_predictions
from supdocnade.errors import StorageError
from supdocnade.runs import RunOptions
from supdocnade.visual_words.encoder import ImageEncoder

SKIP = RunOptions(on_error="skip")


@pytest.fixture(scope="module")
def fitted():
    return small_model().fitted_


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("photos"), n_per_class=3)


@pytest.fixture
def paths(photos):
    return sorted(photos.rglob("*.jpg"))


def test_files_have_the_lines_of_the_command(photos, paths, tmp_path):
    model = tmp_path / "scenes"
    small_model().save(model)
    printed = supdocnade("predict", model, photos, "--json", "--top", "2")
    done = supdocnade(
        "predict", model, photos, "-o", tmp_path / "out", "--top", "2", "--shard-size", "4"
    )
    assert (done.code, done.err) == (0, "")
    assert done.out == f"predictions of 9 photographs written to {tmp_path / 'out'}\n"
    texts = [path.read_text() for path in sorted((tmp_path / "out").iterdir())]
    assert [text.count("\n") for text in texts] == [4, 4, 1]
    assert "".join(texts) == printed.out
    assert not (tmp_path / "out.partial").exists()


def test_an_interrupted_run_resumes(fitted, paths, tmp_path, monkeypatch):
    write_predictions(fitted, paths, tmp_path / "whole", SKIP, shard_size=2)
    encode, seen = ImageEncoder.encode, []

    def killed(self, source, name="", device="cpu"):
        if len(seen) == 5:
            raise KeyboardInterrupt
        seen.append(name)
        return encode(self, source, name, device)

    monkeypatch.setattr(ImageEncoder, "encode", killed)
    with pytest.raises(KeyboardInterrupt):
        write_predictions(fitted, paths, tmp_path / "out", SKIP, shard_size=2)
    assert not (tmp_path / "out").exists()
    with pytest.raises(StorageError, match="other settings"):
        write_predictions(fitted, paths, tmp_path / "out", SKIP, top=1, shard_size=2)
    seen.clear()
    assert write_predictions(fitted, paths, tmp_path / "out", SKIP, shard_size=2) == []
    assert len(seen) == 4  # The words of the others are kept.
    for path in (tmp_path / "whole").iterdir():
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--cluster", "local"), "--cluster needs --output"),
        (("-o", "out", "--csv"), "--csv must not be given with --output"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message, tmp_path):
    done = supdocnade("predict", tmp_path, tmp_path / "a.jpg", *options)
    assert done.code == 2
    assert message in done.err


def test_an_existing_folder_is_not_overwritten(fitted, paths, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letter.txt").write_text("keep")
    with pytest.raises(StorageError, match="must be a new or an empty folder"):
        write_predictions(fitted, paths, tmp_path / "out", SKIP)

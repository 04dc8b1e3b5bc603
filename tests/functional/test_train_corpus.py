"""Training on a corpus that `encode` wrote, by commands."""

import pytest
from tests.commands import CLASSES, SMALL, draw, learned, supdocnade

from supdocnade import SceneModel
from supdocnade.cli.console import ProgressBars

FEW = (
    "--topics",
    "8",
    "--set",
    "max_epochs=20",
    "--set",
    "learning_rate=0.003",
    "--set",
    "min_tag_count=2",
)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("data") / "photos")


@pytest.fixture(scope="module")
def model(photos):
    assert supdocnade("train", photos, "-o", photos.parent / "first", *SMALL).code == 0
    return photos.parent / "first"


@pytest.fixture(scope="module")
def corpus(photos, model):
    folder = photos.parent / "photos.corpus"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("supdocnade.unfinished.PART_SIZE", 5)
        assert supdocnade("encode", model, photos, "-o", folder).code == 0
    return folder


@pytest.fixture(scope="module")
def trained(corpus):
    output = corpus.parent / "scenes"
    return output, supdocnade("train", corpus, "-o", output, *FEW)


def test_a_corpus_needs_no_photographs_and_no_other_model(trained, model, corpus):
    output, done = trained
    assert (done.code, done.err) == (0, "")
    assert done.progress.startswith(f"features: those of {corpus}\n[")
    assert "learned 3 classes" in done.out
    assert "tested on " in done.out
    fitted = SceneModel.load(output).fitted_
    assert fitted.encoder.fingerprint() == SceneModel.load(model).fitted_.encoder.fingerprint()
    assert (fitted.words.settings.n_words, fitted.words.settings.mirror) == (20, True)
    assert not [*output.parent.glob("*.partial")]


def test_other_commands_work_with_the_model(trained, photos, tmp_path):
    output, _ = trained
    (result,) = supdocnade("evaluate", output, photos, "--json").objects
    assert result["n_images"] == 18
    assert result["accuracy"] > 0.8
    labels = [each["label"] for each in supdocnade("predict", output, photos, "--json").objects]
    assert set(labels) == set(CLASSES)
    assert supdocnade("report", output).code == 0
    page = (output / "report.html").read_text()
    assert "18 photographs" in page
    assert "The class is predicted by " in page
    assert supdocnade("info", output).code == 0
    photo = min(photos.glob("coast/*.jpg"))
    assert supdocnade("explain", output, photo, "-o", tmp_path / "why.png").code == 0


def test_an_interrupted_run_resumes_to_the_same_model(trained, corpus, tmp_path, monkeypatch):
    report = ProgressBars.__call__

    def interrupt(self, stage, done, total):
        report(self, stage, done, total)
        if stage == "learning from all" and done > 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProgressBars, "__call__", interrupt)
        stopped = supdocnade("train", corpus, "-o", tmp_path / "m", *FEW)
    again = f"supdocnade train {corpus} -o {tmp_path / 'm'} --resume"
    assert (stopped.code, stopped.err.splitlines()[-1]) == (130, f"stopped; resume with: {again}")
    assert supdocnade(*again.split()[1:]).code == 0
    assert learned(tmp_path / "m") == learned(trained[0])


def test_options_of_visual_words_are_refused(corpus, model, tmp_path):
    given = (
        ("--words", 9),
        ("--features", "sift"),
        ("--set mirror", "false"),
        ("--set grid", "3,3"),
    )
    for option, value in given:
        arguments = f"{option}={value}".split() if "set" in option else (option, value)
        done = supdocnade("train", corpus, "-o", tmp_path / "m", *arguments)
        assert done.code == 1
        assert f"{option} must not be given with a corpus: the visual words stay" in done.err
    refused = supdocnade("train", corpus, "-o", tmp_path / "m", "--add", model)
    assert "--add must not be given with a corpus" in refused.err
    assert not [*tmp_path.iterdir()]

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from tests.scene_model import SETTINGS, columns, params_of, scenes, small_model

from supdocnade import SceneModel
from supdocnade.errors import StorageError
from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.scene import references
from supdocnade.scene.calibration import HeldOutImage
from supdocnade.scene.dataset import Photographs, TrainingSet
from supdocnade.scene.fitting import _compare_with_training_set
from supdocnade.scene.model import scene_model
from supdocnade.scene.persistence import DESCRIPTION, SCENE, load_scene, save_scene
from supdocnade.scene.thumbnails import Thumbnails
from supdocnade.unfinished import PartialFolder

IMAGES, LABELS, TAGS = columns(scenes(2, 5))


@pytest.mark.parametrize("output", ["words", "sigmoid"])
def test_a_loaded_model_predicts_the_same(tmp_path, output):
    model = small_model(output)
    model.save(tmp_path / "model")
    (tmp_path / "model").rename(tmp_path / "elsewhere")
    loaded = SceneModel.load(tmp_path / "elsewhere")
    np.testing.assert_array_equal(loaded.predict_proba(IMAGES), model.predict_proba(IMAGES))
    assert list(loaded.iter_predictions(IMAGES)) == list(model.iter_predictions(IMAGES))
    np.testing.assert_array_equal(
        loaded.explain(IMAGES[0]).share_S, model.explain(IMAGES[0]).share_S
    )
    assert params_of(loaded) == params_of(
        clone(model).set_params(n_topics=None, topics__n_topics=12)
    )
    one, other = loaded.fitted_, model.fitted_
    assert (one.choices, one.data) == (other.choices, other.data)
    assert one.used_settings() == other.used_settings()
    assert one.held_out.images == other.held_out.images
    assert one.history.epochs == other.history.epochs
    np.testing.assert_array_equal(one.rotation.axes_HR, other.rotation.axes_HR)
    np.testing.assert_array_equal(one.rotation.inverse_RH, other.rotation.inverse_RH)


@pytest.mark.parametrize(
    ("known", "output"),
    [
        ((None, None), "words"),
        ((LABELS, None), "words"),
        ((None, TAGS), "words"),
        ((None, None), "sigmoid"),
        ((None, TAGS), "sigmoid"),
    ],
)
def test_models_without_classes_or_tags_are_saved(tmp_path, known, output):
    settings = {**SETTINGS, "n_words": 10, "max_epochs": 1, "min_tag_count": 1, "damping": None}
    settings["annotation_output"] = output
    model = scene_model(**settings, grid=[(1, 1), (2, 1)], patch_size=(16, 24))
    model.fit(IMAGES, *known).save(tmp_path / "model")
    model.fit(IMAGES, *known).save(tmp_path / "again")  # The same file, to the last byte.
    assert (tmp_path / "again" / SCENE).read_bytes() == (tmp_path / "model" / SCENE).read_bytes()
    loaded = SceneModel.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(IMAGES), model.transform(IMAGES))


def test_a_model_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch):
    folder = tmp_path / "model"
    small_model().save(folder)
    (folder / "report.html").write_text("of this model")
    before = contents(folder)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(StorageError, match="cannot be written: No space left on device"):
            small_model("sigmoid").save(folder)
    assert contents(folder) == before
    small_model("sigmoid").save(folder)
    assert SceneModel.load(folder).topics.annotation_output == "sigmoid"
    # The report of the replaced model is removed.
    assert sorted(contents(folder)) == [DESCRIPTION, SCENE]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_folder_with_other_things_is_not_touched(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(StorageError, match="contains other files"):
        small_model().save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_link_to_a_folder_stays_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    for _ in range(2):
        small_model().save(tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        SceneModel.load(tmp_path / "disk")


def test_the_description_is_for_people_alone(tmp_path):
    small_model().save(tmp_path / "model")
    description = json.loads((tmp_path / "model" / DESCRIPTION).read_text())
    assert description["held_out"]["metrics"] == small_model().fitted_.held_out.metrics
    assert description["settings"]["n_topics"] == 12
    (tmp_path / "model" / DESCRIPTION).unlink()
    loaded = SceneModel.load(tmp_path / "model")
    assert loaded.classes_.tolist() == small_model().classes_.tolist()


def test_a_loaded_model_learns_more(tmp_path):
    model = scene_model(**SETTINGS).fit(*columns(scenes(3)))
    model.save(tmp_path / "model")
    loaded = SceneModel.load(tmp_path / "model").fit_more(IMAGES, LABELS, TAGS)
    model.fit_more(IMAGES, LABELS, TAGS)
    np.testing.assert_array_equal(loaded.predict_proba(IMAGES), model.predict_proba(IMAGES))
    loaded.save(tmp_path / "more")
    SceneModel.load(tmp_path / "more")


def test_folders_without_a_model_are_refused(tmp_path):
    with pytest.raises(StorageError, match="is not a model"):
        SceneModel.load(tmp_path)
    with pytest.raises(StorageError, match=r"there is no folder .*nowhere\.$"):
        SceneModel.load(tmp_path / "nowhere")
    unfinished = PartialFolder(tmp_path / "nowhere", "train")
    with unfinished.lock():
        unfinished.write_plan({})
    with pytest.raises(StorageError, match=r"nowhere; an interrupted run is in .*nowhere\.partial"):
        SceneModel.load(tmp_path / "nowhere")


def many_photographs(n_photographs, n_words, n_words_each=12):
    """Return a training set of photographs with random words, labels and tags."""
    rng = np.random.default_rng(0)
    numbers = range(n_photographs)
    ends = n_words_each * np.arange(n_photographs + 1)
    words = rng.integers(0, n_words - n_words_each, n_photographs)[:, None] + np.arange(
        n_words_each
    )
    counts = sparse.csr_array(
        (rng.integers(1, 200, words.size), words.ravel().astype(np.int32), ends),
        (n_photographs, n_words),
    )
    tags = [None, [], ["sea"], ["sea", "Straße"]]
    photographs = Photographs(
        sources=[b""] * n_photographs,
        names=[f"photos/2026/a folder/IMG_{number:07d}.jpg" for number in numbers],
        labels=[(None, "coast", "forest")[number % 3] for number in numbers],
        tags=[tags[number % 4] for number in numbers],
        keys=[f"{number:040x}" for number in numbers],
    )
    return TrainingSet(photographs, counts, np.arange(n_photographs) % 7 > 0)


def test_the_file_of_a_hundred_thousand_photographs_is_bounded(tmp_path, monkeypatch):
    """Every photograph takes a fixed number of bytes; equally many are compared with others."""
    monkeypatch.setattr(references, "MAX_REFERENCES", 900)
    small = small_model()
    fitted = small.fitted_
    sizes = {}
    for n_photographs in (1000, 100_000):
        folder = tmp_path / str(n_photographs)
        training_set = many_photographs(n_photographs, fitted.encoder.n_features)
        images = tuple(
            HeldOutImage(
                name=f"{number}.jpg",
                label=(None, "coast")[number % 2],
                predicted="coast",
                probability=None if number % 2 else number / n_photographs,
                tags=(None, (), ("sea",))[number % 3],
                given=(("sea", 0.5), ("sky", 0.25))[: number % 3],
            )
            for number in range(n_photographs // 10)
        )
        held_out = replace(fitted.held_out, images=images)
        large = replace(
            fitted,
            training_set=training_set,
            held_out=held_out,
            thumbnails=Thumbnails(),
            topics_BH=np.tile(fitted.topics_BH, (n_photographs // 24 + 1, 1))[:n_photographs],
            class_head=None,
            votes=None,
        )
        large = _compare_with_training_set(large, AnnotationVocabulary(large.tag_names))
        save_scene(large, folder)
        sizes[n_photographs] = (folder / SCENE).stat().st_size
        assert (folder / DESCRIPTION).stat().st_size < 10_000
    loaded = load_scene(folder)
    assert loaded.held_out.images == images
    before, after = training_set, loaded.training_set
    for name in ("names", "labels", "tags", "keys"):
        assert getattr(after.photographs, name) == getattr(before.photographs, name)
    assert (after.counts != before.counts).nnz == 0
    assert after.counts.data.dtype == np.int64
    np.testing.assert_array_equal(after.in_words_B, before.in_words_B)
    bytes_each = (sizes[100_000] - sizes[1000]) / 99_000
    # 12 words, 3 bytes each, and their end; 12 topics; name and key of 38 and 40 bytes and their
    # ends, label and tags; a tenth of a held-out photograph.
    assert bytes_each < (12 * 3 + 8) + 12 * 2 + (38 + 8) + (40 + 8) + 4 + (4 + 4) + 1 + 18

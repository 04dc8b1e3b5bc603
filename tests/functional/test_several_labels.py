"""Photographs with several labels, from the metadata to every command."""

import csv
import io
import json
from pathlib import PurePath

import numpy as np
import pytest
from tests.commands import SMALL, supdocnade
from tests.scene_model import SETTINGS, scenes

from supdocnade import Corpus, SceneModel
from supdocnade.errors import InvalidArgument
from supdocnade.gallery.photo_index import Gallery
from supdocnade.images.decode import write_image
from supdocnade.metrics import mean_average_precision
from supdocnade.scene.sharing import model_card
from supdocnade.serving.explore import describe_photograph

CLASSES = ["coast", "forest", "skyline", "tree", "water"]


def labels_of(scene):
    return [scene.label, *(tag for tag in scene.tags if tag in CLASSES)]


def draw(folder, n_per_class, seed):
    """Write drawn scenes into one folder; the metadata give each several labels."""
    rows = []
    for number, scene in enumerate(scenes(n_per_class, seed)):
        name = f"{number:02d}.png"
        write_image(folder / name, scene.image)
        # The class of the fourth photograph is unknown, and the fifth has none of the labels.
        label = {3: None, 4: []}.get(number, labels_of(scene))
        rows.append({"file_name": name, "label": label, "tags": scene.tags})
    (folder / "metadata.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("photos"), 10, 0)


@pytest.fixture(scope="module")
def unseen(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("unseen"), 3, 7)


@pytest.fixture(scope="module")
def model(photos, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "model"
    options = [*SMALL, "--epochs", "20", "--seed", "0"]
    done = supdocnade("train", photos, "-o", folder, *options)
    assert done.code == 0, done.err
    assert "mean average precision of labels" in done.out
    return folder


def test_predictions_have_labels(model, unseen):
    fitted = SceneModel.load(model).fitted_
    threshold = fitted.choices.unsure_below
    for found in supdocnade("predict", model, unseen, "--json").objects:
        probabilities = found["probabilities"]
        assert list(probabilities) == CLASSES
        best = max(probabilities, key=probabilities.get)
        assert (found["label"], found["probability"]) == (best, probabilities[best])
        given = {name: p for name, p in probabilities.items() if p >= threshold}
        assert {each["label"]: each["probability"] for each in found["labels"]} == given
        ranked = [each["probability"] for each in found["labels"]]
        assert ranked == sorted(ranked, reverse=True)
    table = csv.DictReader(io.StringIO(supdocnade("predict", model, unseen, "--csv").out))
    for row in table:
        assert len(row["label"].split("|")) == len(row["probability"].split("|"))


def test_evaluation_by_mean_average_precision(model, unseen, photos, tmp_path):
    (found,) = supdocnade("evaluate", model, unseen, "--json").objects
    loaded = SceneModel.load(model)
    some = scenes(3, 7)
    true = np.array([[c in labels_of(scene) for c in CLASSES] for scene in some])
    true[4] = False
    rows = [row for row in range(len(some)) if row != 3]
    probabilities = loaded.predict_proba([scene.image for scene in some])[rows]
    expected = mean_average_precision(probabilities, true[rows])
    assert found["mean_average_precision"] == pytest.approx(expected.value, abs=1e-6)
    assert found["mean_average_precision"] > 0.7
    assert list(found["average_precision"]) == CLASSES
    assert found["n_labelled"] == len(rows)
    predicted = loaded.predict([some[row].image for row in rows])
    right = [
        set(given) == {c for c, there in zip(CLASSES, of_row, strict=True) if there}
        for given, of_row in zip(predicted, true[rows], strict=True)
    ]
    assert found["accuracy"] == np.mean(right)
    text = supdocnade("evaluate", model, unseen).out
    assert "mean average precision" in text
    assert "all labels right" in text


def test_other_commands(model, unseen, tmp_path):
    info = supdocnade("info", model, "--json").objects[0]
    assert info["classifier"] == "sigmoid"
    assert set(info["classes"]) == set(CLASSES)
    assert info["n_unlabelled"] == 1
    why = supdocnade(
        "explain", model, unseen / "00.png", "--label", "water", "-o", tmp_path / "a.png"
    )
    assert why.code == 0, why.err
    assert "water" in why.out
    assert supdocnade("report", model, "-o", tmp_path / "report.html").code == 0
    assert "Mean average precision of labels" in (tmp_path / "report.html").read_text()
    assert supdocnade("index", model, unseen).code == 0
    card = model_card(SceneModel.load(model).fitted_, "scenes")
    assert "mean average precision of labels (5 labels)" in card
    assert "all labels right" in card
    assert len(supdocnade("suggest", model, unseen, "-n", "2", "--json").objects) == 2
    check = supdocnade("check", unseen, "--json").objects[0]
    assert set(check["classes"]) <= set(CLASSES)


def test_gallery_has_all_labels(model, unseen, tmp_path):
    assert supdocnade("index", model, unseen, "-o", tmp_path / "index").code == 0
    gallery = Gallery.load(tmp_path / "index", SceneModel.load(model).fitted_)
    said = {
        PurePath(each["file"]).name: {x["label"]: x["probability"] for x in each["labels"]}
        for each in supdocnade("predict", model, unseen, "--json").objects
    }
    expected = [said[gallery.name(row)] for row in range(len(gallery))]
    assert max(map(len, expected)) > 1
    for row, labels in enumerate(expected):
        assert dict(gallery.labels(row)) == pytest.approx(labels, rel=1e-6)
        shown = describe_photograph(gallery, row)
        assert [each.label for each in shown.labels] == list(labels)
    counts = dict(gallery.count_classes(np.arange(len(gallery))))
    for label in CLASSES:
        rows, matches = gallery.search(label=label)
        assert set(rows) == {row for row, labels in enumerate(expected) if label in labels}
        assert matches.tolist() == pytest.approx([expected[row][label] for row in rows], rel=1e-6)
        assert counts.get(label, 0) == len(rows)
    some = gallery.search(words="water")[0]
    assert set(gallery.search(label="water")[0]) <= set(some)


def test_suggestions_have_all_labels(model, unseen):
    said = supdocnade("predict", model, unseen, "--csv").out
    of_file = {PurePath(r["file"]).name: r["label"] for r in csv.DictReader(io.StringIO(said))}
    rows = csv.DictReader(io.StringIO(supdocnade("suggest", model, unseen, "--csv").out))
    found = {PurePath(row["file_name"]).name: row["predicted_label"] for row in rows}
    assert found
    assert found == {name: of_file[name] for name in found}


def test_models_of_one_class_per_photograph(model, unseen, tmp_path):
    images, labels = [s.image for s in scenes()], [s.label for s in scenes()]
    single = SceneModel(**{**SETTINGS, "max_epochs": 2}).fit(images, labels)
    single.save(tmp_path / "single")
    done = supdocnade("evaluate", tmp_path / "single", unseen)
    assert done.code != 0
    assert "must have one class each, as those of the model, got several labels" in done.err
    with pytest.raises(InvalidArgument, match="classifier must be 'auto' or 'softmax' if photo"):
        SceneModel(classifier="svm", **SETTINGS).fit(images, [[label, "x"] for label in labels])
    # More photographs may turn it into a model of several labels.
    extended = single.set_params(max_epochs=3).fit_more(
        images[:4], [[label, "indoor"] for label in labels[:4]]
    )
    assert "indoor" in extended.classes_
    assert extended.predict_proba(images[:1]).shape == (1, 4)
    assert extended.fitted_.several_labels


def test_lists_of_labels_and_a_corpus(tmp_path):
    some = scenes(10)
    images, labels = [s.image for s in some], [labels_of(s) for s in some]
    settings = {**SETTINGS, "max_epochs": 3}
    model = SceneModel(**settings).fit(images, labels)
    assert model.fitted_.held_out.figures["n_labelled"] >= 3
    model.save(tmp_path / "model")
    loaded = SceneModel.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(images[:3]), model.predict_proba(images[:3]))
    predicted = loaded.predict(images[:3])
    assert all(isinstance(given, tuple) and set(given) <= set(CLASSES) for given in predicted)
    explanation = loaded.explain(images[0])
    assert explanation.score.startswith("logit p(")
    corpus = Corpus.create(
        tmp_path / "corpus", n_words=model.fitted_.encoder.n_features,
        encoder=model.fitted_.encoder.fingerprint(),
    )  # fmt: skip
    counts = model.fitted_.bag.transform(images)
    corpus.append(counts, labels=["|".join(sorted(each)) for each in labels])
    of_corpus = SceneModel(**settings).fit(corpus, words=model.fitted_.bag)
    assert list(of_corpus.classes_) == CLASSES
    assert of_corpus.fitted_.several_labels

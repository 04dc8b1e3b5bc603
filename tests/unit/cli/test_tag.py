from dataclasses import replace

from PIL import Image
from tests.textures import stripes

from supdocnade.cli.model_commands import Tag
from supdocnade.cli.tag import PredictionWriter
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


def test_the_label_is_a_keyword_on_request_unless_unsure():
    assert PredictionWriter(Tag()).keywords_of(prediction("a.jpg")) == ["sea", "sky"]
    labelled = PredictionWriter(Tag(with_class=True))
    assert labelled.keywords_of(prediction("a.jpg", label="sea")) == ["sea", "sky"]
    assert labelled.keywords_of(prediction("a.jpg")) == ["coast", "sea", "sky"]
    assert labelled.keywords_of(prediction("a.jpg", unsure=True)) == ["sea", "sky"]
    unlike = replace(prediction("a.jpg"), unfamiliar=True)
    assert labelled.keywords_of(unlike) == []


def test_photographs_unlike_those_of_training_get_no_sidecar(tmp_path):
    writer, path = PredictionWriter(Tag()), tmp_path / "a.jpg"
    Image.fromarray(stripes(0)).save(path)
    assert not writer.write(replace(prediction(str(path)), unfamiliar=True))
    assert list(tmp_path.iterdir()) == [path]
    unlike = "none for 1 photograph unlike the training photographs"
    assert writer.summary() == f"wrote 0 sidecars, {unlike}"


def test_only_probable_keywords_are_written():
    sure = prediction("a.jpg")
    assert PredictionWriter(Tag(min_probability=0.95)).keywords_of(sure) == []
    assert PredictionWriter(Tag(min_probability=0.95, with_class=True)).keywords_of(sure) == []
    assert PredictionWriter(Tag(), {"sea": 0.95, "sky": 0.9}).keywords_of(sure) == ["sky"]

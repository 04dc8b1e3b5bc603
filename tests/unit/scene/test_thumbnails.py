import io
import os
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from tests.scene_model import SETTINGS, columns, scenes, small_model

from supdocnade import SceneModel
from supdocnade.errors import InvalidArgument
from supdocnade.images.decode import write_image
from supdocnade.scene import thumbnails
from supdocnade.scene.calibration import HeldOutImage
from supdocnade.scene.model import scene_model
from supdocnade.scene.thumbnails import Thumbnails
from supdocnade.schema import save

TINY = Thumbnails(
    names=("a", "b"),
    pictures=(b"\xff\xd8\xff first", b"\xff\xd8\xff second one"),
    topics={3: ("b",)},
)


def test_the_limits_hold_for_thumbnails_of_an_earlier_model(monkeypatch):
    earlier = Thumbnails(
        names=("c", "d", "e"),
        pictures=tuple(b"\xff\xd8\xff" + each for each in (b"1234", b"12", b"123")),
    )
    names = [*TINY.names, *earlier.names]
    assert TINY.add_from(earlier, names[:-1]).names == ("a", "b", "c", "d")
    monkeypatch.setattr(thumbnails, "MAX_BYTES", sum(map(len, TINY.pictures)) + 6)
    assert TINY.add_from(earlier, names).names == ("a", "b", "d")
    monkeypatch.setattr(thumbnails, "MAX_PHOTOGRAPHS", 2)
    assert TINY.add_from(earlier, names) == TINY


def test_thumbnails_show_held_out_photographs_and_topics():
    fitted = small_model().fitted_
    kept = fitted.thumbnails
    assert {image.name for image in fitted.held_out.images} <= set(kept.names)
    weights = fitted.rotation.rotate_weights(fitted.network["label_weight"])
    assert set(np.argsort(-weights, axis=1)[:, :3].ravel().tolist()) <= set(kept.topics)
    hidden = small_model().transform([scene.image for scene in scenes()])
    rotated = fitted.rotation.rotate(hidden)
    for topic, names in kept.topics.items():
        places = [int(name.removeprefix("image ")) for name in names]
        strongest = np.sort(rotated[:, topic])[::-1][:4]
        np.testing.assert_array_equal(rotated[places, topic], strongest[strongest > 0])


def test_thumbnails_are_small_copies_of_their_photographs():
    kept = small_model().fitted_.thumbnails
    images, _, _ = columns(scenes())
    for name, content in zip(kept.names, kept.pictures, strict=True):
        picture = np.asarray(Image.open(io.BytesIO(content)))
        assert max(picture.shape) <= thumbnails.SIDE
        whole = images[int(name.removeprefix("image "))]
        assert abs(picture.astype(int) - whole).mean() < 12
    assert kept.picture(kept.names[1]) == kept.pictures[1]
    assert kept.picture("no such name") is None


def test_large_photographs_become_small_and_the_total_is_bounded(monkeypatch):
    monkeypatch.setattr(thumbnails, "MAX_BYTES", 30_000)
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (300, 400, 3)).astype(np.uint8) for _ in range(6)]
    model = scene_model(n_topics=2, n_words=4, max_epochs=1, held_out=0.0, random_state=0).fit(
        images
    )
    kept = model.fitted_.thumbnails
    assert 0 < len(kept.names) < 6
    assert sum(map(len, kept.pictures)) <= 30_000
    assert all(Image.open(io.BytesIO(each)).size == (160, 120) for each in kept.pictures)
    assert all(set(names) <= set(kept.names) for names in kept.topics.values())


def answered(number, label, predicted, probability=0.5):
    return HeldOutImage(
        name=f"{number}",
        label=label,
        predicted=predicted,
        probability=probability,
        tags=None,
        given=(),
    )


def test_wrong_predictions_come_first_and_every_class_has_right_ones(monkeypatch):
    monkeypatch.setattr(thumbnails, "MAX_HELD_OUT", 20)
    right = [answered(n, "ab"[n % 2], "ab"[n % 2]) for n in range(50)]
    wrong = [answered(100 + n, "a", "b", n / 100) for n in range(50)]
    chosen = thumbnails.choose_held_out([*right, *wrong])
    assert chosen[:14] == [str(149 - n) for n in range(14)]
    assert chosen[14:] == ["0", "1", "2", "3", "4", "5"]
    assert len(thumbnails.choose_held_out([*right, *wrong[:2]])) == 20
    assert thumbnails.choose_held_out(wrong[:3]) == ["102", "101", "100"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pictures": TINY.pictures[:1]}, "the length 2 of names must be 1"),
        ({"names": ("a", "a")}, "different names"),
        ({"pictures": (b"a", b"b")}, "must be JPEG"),
        ({"topics": {0: ("x",)}}, "must show photographs"),
    ],
)
def test_invalid_thumbnails_are_not_saved(tmp_path, change, message):
    with pytest.raises(InvalidArgument, match=message):
        save(tmp_path / "file", "Thumbnails", replace(TINY, **change))


def test_names_that_are_no_unicode_are_stored(tmp_path):
    """Linux allows any bytes in a file's name; Python has surrogates for them."""
    folder = tmp_path / "photographs"
    for number, scene in enumerate(scenes()):
        write_image(folder / scene.label / f"{number}.png", scene.image)
    odd = os.fsdecode(os.fsencode(folder / "coast") + b"\xff")
    (folder / "coast").rename(odd)
    model = scene_model(**{**SETTINGS, "max_epochs": 1}).fit(folder)
    model.save(tmp_path / "model")
    loaded = SceneModel.load(tmp_path / "model").fitted_
    assert loaded.classes == (os.path.basename(odd), "forest", "skyline")
    assert loaded.thumbnails == model.fitted_.thumbnails
    assert any(odd in name for name in loaded.thumbnails.names)

"""Copies of a picture are found, whatever was done to the file; other pictures are not."""

import numpy as np

from supdocnade.demo import drawn_scenes
from supdocnade.images.decode import encode
from supdocnade.paper.near_duplicates import same_pictures


def test_grey_copies_and_saved_again_ones_are_one_picture():
    scenes = [scene.image for scene in drawn_scenes(2, 0, size=(96, 128))]
    grey = [image.mean(axis=2).astype(np.uint8) for image in scenes[:3]]
    poor = [encode(image, "JPEG", quality=40) for image in scenes[4:6]]
    images = [*scenes, *grey, *poor]
    found = same_pictures(images, [str(n) for n in range(len(images))])
    assert found.tolist() == [*range(16), 0, 1, 2, 4, 5]


def test_equal_contents_are_one_picture_whatever_they_show():
    flat = np.full((40, 60), 128, np.uint8)
    found = same_pictures([flat, flat, flat + 1], ["a", "b", "a"])
    # Pictures of one level are like no other: only the digest joins them.
    assert found.tolist() == [0, 1, 0]


def test_other_shapes_are_other_pictures():
    ramp = np.tile(np.arange(60, dtype=np.uint8), (60, 1))
    assert same_pictures([ramp, ramp[:40]], ["a", "b"]).tolist() == [0, 1]

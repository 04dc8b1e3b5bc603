import numpy as np
import pytest
from PIL import Image

from supdocnade.errors import InvalidArgument
from supdocnade.images.reading import check_images, content_key, map_images
from supdocnade.runs import RunOptions


def test_keys_are_of_contents():
    grey = np.zeros((2, 3), np.uint8)
    keys = [content_key(each) for each in (b"", b"1", grey, grey.T, grey.astype(np.uint16))]
    keys.append(content_key(Image.fromarray(grey)))
    assert len(set(keys)) == len(keys)
    assert content_key(np.asfortranarray(grey)) == content_key(grey)
    assert content_key("a path") is None


def test_an_error_that_is_not_about_one_image_ends_the_run():
    def fail(*_):
        raise InvalidArgument("the network 'x' is not installed.")

    with pytest.raises(InvalidArgument, match="not installed"):
        list(map_images(fail, [b""], RunOptions(on_error="skip")))


def test_progress_counts_every_image(tmp_path):
    seen = []
    list(
        map_images(
            lambda *_: 0, list(range(19)), RunOptions(progress=lambda *now: seen.append(now[1:]))
        )
    )
    assert seen == [(done, 19) for done in range(1, 20)]


def test_only_a_few_images_are_ahead_of_the_reader():
    """However many images there are, what was read and not yet used is bounded."""
    started = []
    results = map_images(
        lambda source, *_: started.append(source), list(range(2000)), RunOptions(n_jobs=2)
    )
    next(results)
    assert len(started) < 200
    results.close()


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ("photo.jpg", "got one, 'photo.jpg'"),
        (np.zeros((4, 4), np.uint8), "got an array of shape"),
        (np.zeros((40, 50, 3), np.uint8), r"got an array of shape \(40, 50, 3\)"),
        (5, "got int"),
    ],
)
def test_what_is_no_list_of_images_is_refused(odd, message):
    with pytest.raises(InvalidArgument, match=message):
        check_images(odd)

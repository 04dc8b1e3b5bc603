import pytest

from supdocnade.errors import InvalidArgument
from supdocnade.serving.limits import ServeSettings


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"max_images": 0}, "max_images"),
        ({"max_images": 300}, "max_waiting"),
        ({"max_held_bytes": 5}, "max_held_bytes"),
        ({"upload_seconds": 0}, "upload_seconds"),
        ({"answer_seconds": float("nan")}, "answer_seconds"),
        ({"token": "two words"}, "token"),
        ({"token": ""}, "token"),
        ({"token": "café"}, "token"),
        ({"n_workers": 0}, "n_workers"),
        ({"max_connections": 1}, "max_connections"),
    ],
)
def test_invalid_settings_are_refused(settings, name):
    with pytest.raises(InvalidArgument, match=name):
        ServeSettings(**settings)

import pytest

from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.serving import server
from supdocnade.serving.limits import ServeSettings


@pytest.mark.parametrize(
    ("changed", "named"),
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
    ],
)
def test_settings_that_make_no_sense_are_refused(changed, named):
    with pytest.raises(InvalidArgument, match=named):
        ServeSettings(**changed)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "example.org"])
def test_others_are_served_only_with_a_token_or_on_purpose(host):
    with pytest.raises(InvalidArgument, match=r"SUPDOCNADE_TOKEN.*--allow-open"):
        server.check_access(host, None, allow_open=False)
    server.check_access(host, "secret", allow_open=False)
    server.check_access(host, None, allow_open=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_needs_no_token(host):
    server.check_access(host, None, allow_open=False)


def test_a_port_that_is_taken_is_named():
    with server.bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StorageError, match=f"port {port}"):
            server.bind("127.0.0.1", port)
        assert server.server_url(taken) == f"http://127.0.0.1:{port}/"
    with pytest.raises(StorageError, match="no-such-host"):
        server.bind("no-such-host.invalid", 0)

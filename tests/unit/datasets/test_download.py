"""Downloads from a server of the test itself, which can be told to misbehave."""

import hashlib
import io
import json
import sys
import threading
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from supdocnade.datasets.download import CHUNK, SOURCES, Fetched, Source, fetch
from supdocnade.errors import DownloadFailed, InvalidArgument, StorageError


def archive_of(*names):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for i, name in enumerate(names):
            archive.writestr(name, bytes([i]) * 300_000)
    return buffer.getvalue()


CONTENT = archive_of("coast/a.jpg", "forest/b.jpg")
OTHER = archive_of("coast/a.jpg", "street/c.jpg")
HALF = len(CONTENT) // 2 // CHUNK * CHUNK


@dataclass
class Server:
    """What the server holds, how it behaves, and what it was asked for."""

    url: str = ""
    content: bytes = CONTENT
    marks: dict[str, str] = field(default_factory=lambda: {"ETag": '"one"'})
    lengths: bool = True
    ranges: bool = True
    obeys_if_range: bool = True
    shifts: int = 0
    """By how many bytes a continued answer begins too late."""
    status: int = 0
    cuts: list[int] = field(default_factory=list)
    """After how many bytes of the next answers the connection is closed."""
    asked: list[str | None] = field(default_factory=list)
    """The ranges that were asked for."""

    def answer(self, handler):
        asked = handler.headers.get("Range")
        self.asked.append(asked)
        assert handler.headers["Accept-Encoding"] == "identity"
        first, status, total = 0, 200, len(self.content)
        same = handler.headers.get("If-Range") in self.marks.values() or not self.obeys_if_range
        if asked and self.ranges and same:
            first = int(asked.removeprefix("bytes=").removesuffix("-")) + self.shifts
            status = 206 if first < total else 416
        body = self.content[first:] if status != 416 else b""
        handler.send_response(self.status or status)
        if self.lengths:
            handler.send_header("Content-Length", str(len(body)))
        if status == 206:
            handler.send_header("Content-Range", f"bytes {first}-{total - 1}/{total}")
        if status == 416:
            handler.send_header("Content-Range", f"bytes */{total}")
        for name, value in self.marks.items():
            handler.send_header(name, value)
        handler.end_headers()
        with suppress(ConnectionError):  # The other side may leave first.
            handler.wfile.write(body[: self.cuts.pop(0)] if self.cuts else body)
        handler.close_connection = True


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            state.answer(self)

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        state.url = f"http://127.0.0.1:{http.server_address[1]}/scenes.zip"
        yield state
        http.shutdown()
        thread.join()


def get(server, folder, kind="zip", published=None, **options):
    source = Source(server.url, f"scenes.{kind}", kind, published)
    return fetch("scenes", folder, sources={"scenes": source}, **options)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_an_archive_is_fetched_and_unpacked(server, tmp_path):
    folder = tmp_path / "new" / "data"
    fetched = get(server, folder)
    assert fetched == Fetched(folder / "scenes.zip", folder / "scenes")
    assert names(folder) == ["scenes", "scenes.zip", "scenes.zip.sha256"]
    assert names(folder / "scenes") == ["coast", "forest"]
    assert (folder / "scenes.zip").read_bytes() == CONTENT
    digest = hashlib.sha256(CONTENT).hexdigest()
    assert (folder / "scenes.zip.sha256").read_text() == f"{digest}  scenes.zip\n"


def test_what_is_there_is_not_fetched_again(server, tmp_path):
    get(server, tmp_path)
    get(server, tmp_path)
    (tmp_path / "scenes.zip").unlink()
    assert get(server, tmp_path).folder == tmp_path / "scenes"
    assert server.asked == [None]


def test_a_cut_connection_is_continued(server, tmp_path):
    server.cuts = [HALF, CHUNK]
    get(server, tmp_path)
    assert (tmp_path / "scenes.zip").read_bytes() == CONTENT
    assert server.asked == [None, f"bytes={HALF}-", f"bytes={HALF + CHUNK}-"]
    assert names(tmp_path) == ["scenes", "scenes.zip", "scenes.zip.sha256"]


@pytest.mark.parametrize(
    "marks",
    [{"ETag": '"one"'}, {"ETag": 'W/"one"', "Last-Modified": "Tue, 01 Jan 2008 00:00:00 GMT"}],
)
def test_a_later_call_continues(server, tmp_path, marks):
    server.marks = marks
    server.cuts = [HALF, 0]
    with pytest.raises(DownloadFailed, match=rf"cannot be fetched \(.*\); {HALF} bytes are kept"):
        get(server, tmp_path)
    assert names(tmp_path) == ["scenes.zip.part", "scenes.zip.part.json"]
    get(server, tmp_path)
    assert (tmp_path / "scenes.zip").read_bytes() == CONTENT
    assert server.asked == [None, f"bytes={HALF}-", f"bytes={HALF}-"]


def cut_off(server, folder):
    server.cuts = [HALF, 0]
    with pytest.raises(DownloadFailed):
        get(server, folder)
    server.asked.clear()


def test_another_version_is_not_joined_to_the_first(server, tmp_path):
    for server.obeys_if_range in (True, False):
        folder = tmp_path / str(server.obeys_if_range)
        server.content, server.marks = CONTENT, {"ETag": '"one"'}
        cut_off(server, folder)
        server.content, server.marks = OTHER, {"ETag": '"two"'}
        get(server, folder)
        assert (folder / "scenes.zip").read_bytes() == OTHER
        assert server.asked[0] == f"bytes={HALF}-"


@pytest.mark.parametrize("problem", ["no ranges", "no marks", "shifted", "state", "address"])
def test_what_cannot_be_continued_starts_anew(server, tmp_path, problem):
    if problem == "no marks":
        server.marks = {}
    cut_off(server, tmp_path)
    if problem == "no ranges":
        server.ranges = False
    if problem == "shifted":
        server.shifts = 7
    if problem == "state":
        (tmp_path / "scenes.zip.part.json").write_text("[")
    if problem == "address":
        server.url = server.url.replace("scenes", "moved")
    get(server, tmp_path)
    assert (tmp_path / "scenes.zip").read_bytes() == CONTENT
    assert (server.asked[0] is None) == (problem in ("no marks", "state", "address"))


def test_attempts_end_when_they_bring_no_more(server, tmp_path):
    server.ranges = False
    server.cuts = [HALF, HALF, HALF]
    with pytest.raises(DownloadFailed):
        get(server, tmp_path)
    assert len(server.asked) == 2


@pytest.mark.parametrize("extra", [b"", b"more"])
def test_a_part_that_is_complete_or_too_long(server, tmp_path, extra):
    cut_off(server, tmp_path)
    (tmp_path / "scenes.zip.part").write_bytes(CONTENT + extra)
    get(server, tmp_path)
    assert (tmp_path / "scenes.zip").read_bytes() == CONTENT
    expected = [f"bytes={len(CONTENT) + len(extra)}-"] + [None] * bool(extra)
    assert server.asked == expected


def test_the_first_digest_is_trusted_later(server, tmp_path):
    get(server, tmp_path)
    (tmp_path / "scenes.zip").write_bytes(b"damaged")
    get(server, tmp_path)
    assert (tmp_path / "scenes.zip").read_bytes() == CONTENT
    server.content, server.marks = OTHER, {"ETag": '"two"'}
    (tmp_path / "scenes.zip").write_bytes(b"damaged")
    digest = hashlib.sha256(CONTENT).hexdigest()
    with pytest.raises(StorageError, match=f"must give a file of SHA-256 {digest}, got another"):
        get(server, tmp_path)
    (tmp_path / "scenes.zip.sha256").write_text("abc")
    with pytest.raises(StorageError, match=r"sha256 must begin with a SHA-256"):
        get(server, tmp_path)


@pytest.mark.parametrize("how", ["sha256", "published"])
def test_a_known_digest_must_be_met(server, tmp_path, how):
    digest = hashlib.sha256(CONTENT).hexdigest()
    with pytest.raises(StorageError, match="must give a file of SHA-256 00000"):
        get(server, tmp_path, **{how: "0" * 64})
    assert names(tmp_path) == []
    get(server, tmp_path, **{how: digest.upper()})
    assert names(tmp_path) == ["scenes", "scenes.zip"]
    with pytest.raises(InvalidArgument, match="sha256 must be 64 hexadecimal digits, got 'abc'"):
        get(server, tmp_path, sha256="abc")


@pytest.mark.parametrize("status", [404, 500, 202, 206])
def test_other_answers_are_told(server, tmp_path, status):
    server.status = status
    with pytest.raises(
        DownloadFailed, match=rf"scenes\.zip cannot be fetched: .* answers {status} "
    ):
        get(server, tmp_path)
    assert names(tmp_path) == []


def test_a_file_of_unknown_length_is_refused(server, tmp_path):
    server.lengths = False
    with pytest.raises(DownloadFailed, match="cannot be fetched: the server gives it no length"):
        get(server, tmp_path)
    assert names(tmp_path) == []


def test_a_server_that_is_not_there(server, tmp_path):
    server.url = "http://127.0.0.1:1/scenes.zip"
    with pytest.raises(DownloadFailed, match=r"127\.0\.0\.1:1/scenes\.zip cannot be fetched"):
        get(server, tmp_path)
    server.url = "nowhere"
    with pytest.raises(DownloadFailed, match="nowhere cannot be fetched"):
        get(server, tmp_path)


def test_a_folder_that_cannot_be_written(server, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be written"):
        get(server, tmp_path / "file")


def test_a_rar_archive_is_left_to_the_user(server, tmp_path):
    with pytest.warns(
        UserWarning, match=r"scenes\.rar is a RAR archive, .* unpack it into .*scenes"
    ):
        fetched = get(server, tmp_path, kind="rar")
    assert fetched == Fetched(tmp_path / "scenes.rar", None)
    (tmp_path / "scenes").mkdir()
    assert get(server, tmp_path, kind="rar").folder == tmp_path / "scenes"


def test_the_extra_is_named(server, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DownloadFailed, match=r"pip install 'supdocnade\[download\]'"):
        get(server, tmp_path)


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(InvalidArgument, match=r"name must be one of 'scene15', .* got 'mnist'"):
        fetch("mnist", tmp_path)
    for source in SOURCES.values():
        assert source.url.endswith(source.file_name)
        assert source.file_name.endswith(source.archive)


def test_what_is_kept_says_where_it_is_from(server, tmp_path):
    cut_off(server, tmp_path)
    state = json.loads((tmp_path / "scenes.zip.part.json").read_text())
    assert state == {"url": server.url, "version": '"one"'}

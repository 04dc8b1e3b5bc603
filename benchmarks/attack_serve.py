"""Attack a server in many ways by hand, and watch its health meanwhile; `attack` runs this.

Every kind of attack runs against one server with a small model. Meanwhile `/healthz` is asked five
times a second and must answer within a second; every response must have a status below 500, or 503;
and at most five seconds after the attack a photograph must be predicted. The growth of memory and
the size of the log are reported.
"""

import gzip
import io
import json
import resource
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from PIL import Image

from benchmarks.fuzz_files import small_scenes
from benchmarks.fuzz_images import png_header
from benchmarks.serving import BOUNDARY, MEDIA_TYPE, ServerProcess, multipart, run_server
from supdocnade.images.decode import encode

MAX_HEALTH_SECONDS, MAX_RECOVERY_SECONDS = 1.0, 5.0
CLOSED = 0
"""Status of a connection that the server closed without a response."""
Address = tuple[str, int]
Attack = Callable[[Address], list[int]]


def head(line: str, *headers: str, host: str = "localhost") -> bytes:
    """Return the head of a request."""
    return "\r\n".join((f"{line} HTTP/1.1", f"Host: {host}", *headers, "", "")).encode()


def send(address: Address, *pieces: bytes, wait: float = 20.0) -> list[int]:
    """Send bytes on one connection; return the status of the response."""
    with socket.create_connection(address, timeout=wait) as connection:
        with suppress(OSError):  # The server may close before all is sent.
            for piece in pieces:
                connection.sendall(piece)
        with suppress(OSError):
            found = connection.recv(65_536).split(None, 2)
            if len(found) > 1 and found[0].startswith(b"HTTP/"):
                return [int(found[1])]
    return [CLOSED]


def upload(
    body: bytes, *headers: str, media_type: str = MEDIA_TYPE, path: str = "/v1/predict"
) -> bytes:
    """Return a request that posts a body."""
    lines = (f"Content-Type: {media_type}", f"Content-Length: {len(body)}", *headers)
    return head(f"POST {path}", *lines) + body


def correct(correction: dict[str, Any], *headers: str) -> bytes:
    """Return a request that corrects a photograph."""
    body = json.dumps(correction).encode()
    return upload(body, *headers, media_type="application/json", path="/v1/corrections")


def json_body(body: bytes) -> bytes:
    """Return a request that corrects something, by JSON of any kind."""
    return upload(body, media_type="application/json", path="/v1/corrections")


def progressive_jpeg(n_scans: int) -> bytes:
    """Return a JPEG file of 58 megapixels that is read as many times."""
    buffer = io.BytesIO()
    Image.new("RGB", (6944, 8456)).save(buffer, "JPEG", progressive=True, quality=30)
    content = buffer.getvalue()
    return content[:-2] + n_scans * content[content.rfind(b"\xff\xda") : -2] + content[-2:]


def hold(address: Address, begin: bytes, step: bytes, count: int, seconds: float) -> list[int]:
    """Open many connections that send a step twice a second and read nothing."""
    connections = []
    try:
        for _ in range(count):
            with suppress(OSError):
                connections.append(socket.create_connection(address, timeout=2))
                connections[-1].sendall(begin)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for connection in connections if step else ():
                with suppress(OSError):
                    connection.sendall(step)
            time.sleep(0.5)
    finally:
        for connection in connections:
            connection.close()
    return []


def reset(address: Address, count: int) -> list[int]:
    """Open connections and close each without a word."""
    for _ in range(count):
        with suppress(OSError), closing(socket.create_connection(address, timeout=2)) as connection:
            connection.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\n")
            linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"  # Closing sends a reset.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    return []


def endless_chunks(address: Address, seconds: float) -> list[int]:
    """Send a body in chunks that has no end."""
    begin = head("POST /v1/predict", "Transfer-Encoding: chunked", f"Content-Type: {MEDIA_TYPE}")
    chunk = b"10000\r\n" + bytes(65_536) + b"\r\n"
    end = time.monotonic() + seconds + 60

    def chunks() -> Iterator[bytes]:
        yield begin
        while time.monotonic() < end:
            yield chunk

    return send(address, *(piece for _, piece in zip(range(2000), chunks(), strict=False)))


def attacks(photo: bytes, connections: int, seconds: float) -> dict[str, Attack]:
    """Return all attacks by name."""
    many_parts = multipart([b"x"] * 10_000)
    chunked = ("Transfer-Encoding: chunked", f"Content-Type: {MEDIA_TYPE}")
    post, get = partial(head, "POST /v1/predict"), head("GET /v1/model")
    deep, wrong = b"[" * 200_000, {"label": "wrong"}
    no_end = multipart([photo])[: -len(BOUNDARY) - 8]
    held: dict[str, tuple[bytes, bytes]] = {
        "idle connections": (b"", b""),
        "slow heads": (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X-A: b\r\n"),
        "slow bodies": (post("Content-Length: 1000000", f"Content-Type: {MEDIA_TYPE}"), b"x"),
        "slow readers": (head("GET /openapi.json") * 50, b""),
        "slow chunks": (post(*chunked), b"1\r\nx\r\n"),
        "waiting for 100-continue": (post("Content-Length: 9", "Expect: 100-continue"), b""),
    }
    sent: dict[str, tuple[bytes, ...]] = {
        "length too long": (post("Content-Length: 50", f"Content-Type: {MEDIA_TYPE}") + b"x",),
        "length too short": (upload(multipart([photo])).replace(b"Length: ", b"Length: 1\r\nX: "),),
        "length of a petabyte": (post(f"Content-Length: {10**15}"), bytes(1000)),
        "negative length": (post("Content-Length: -1"),),
        "length that is not a number": (post("Content-Length: ten"),),
        "two lengths": (post("Content-Length: 1", "Content-Length: 2") + b"xx",),
        "length and chunks": (post("Content-Length: 5", *chunked) + b"0\r\n\r\n",),
        "chunk that is not a number": (post(*chunked) + b"zz\r\nx\r\n",),
        "chunk of a petabyte": (post(*chunked) + b"38D7EA4C68000\r\nx",),
        "header of a megabyte": (head("GET /v1/model", "X: " + "x" * 2**20),),
        "ten thousand headers": (head("GET /v1/model", *(f"X{n}: y" for n in range(10_000))),),
        "address of a megabyte": (head("GET /" + "x" * 2**20),),
        "ten thousand parameters": (head("GET /v1/gallery?" + "&".join(["tag=x"] * 10_000)),),
        "bytes that are not a request": (bytes(range(256)) * 4,),
        "a greeting of TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),),
        "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",),
        "unknown method": (head("BREW /v1/model"),),
        "no host": (b"GET /v1/model HTTP/1.1\r\n\r\n",),
        "ten thousand parts": (upload(many_parts),),
        "too many images": (upload(multipart([photo] * 200)),),
        "no end of the parts": (upload(no_end),),
        "no boundary": (upload(multipart([photo]), media_type="multipart/form-data"),),
        "deep JSON": (upload(deep, media_type="application/json"),),
        "compressed body": (upload(gzip.compress(bytes(10**6)), "Content-Encoding: gzip"),),
        "bomb of pixels": (upload(multipart([png_header(60_000, 60_000)] * 8)),),
        "foreign host": (head("GET /v1/model", host="evil.example"),),
        "foreign origin": (head("GET /v1/model", "Origin: http://evil.example"),),
        "foreign page": (head("GET /v1/model", "Sec-Fetch-Site: cross-site"),),
        "path to a file": (head("GET /v1/gallery/..%2f..%2fetc%2fpasswd/picture"),),
        "path with a zero byte": (head("GET /v1/gallery/%00"),),
        "numbers that are none": (head("GET /v1/gallery?min_probability=nan&page=1e999"),),
        "a thousand requests at once": (get * 1000,),
        "correction by a foreign page": (correct(wrong, "Origin: http://evil.example"),),
        "correction of a file on the disk": (correct({**wrong, "file": "/etc/passwd"}),),
        "correction of a megabyte": (correct({"key": "0" * 40, "label": "x" * 2**20}),),
        "correction with line breaks": (correct({"key": "0" * 40, "file": '\n{"label": "x"}\n'}),),
        "a thousand corrections at once": (correct({"key": "0" * 40, "label": "x"}) * 1000,),
        "two megabytes of zeros as JSON": (json_body(b'{"images":[' + b"0," * 10**6 + b"0]}"),),
        "correction with 80,000 tags": (json_body(b'{"tags":[' + b'"",' * 80_000 + b'""]}'),),
        "correction with 28,000 fields": (
            json_body(b"{" + b",".join(b'"%x":0' % n for n in range(28_000)) + b"}"),
        ),
        "wrong chunk for the page": (head("GET /", "Transfer-Encoding: chunked") + b"zz\r\n",),
        "a thousand scans": (upload(multipart([progressive_jpeg(1000)] * 2)),),
        "a hundred scans of 58 megapixels": (upload(multipart([progressive_jpeg(90)] * 8)),),
        "sixty million pixels in a row": (upload(multipart([png_header(60_000_000, 1)])),),
    }
    found: dict[str, Attack] = {
        name: partial(hold, begin=begin, step=step, count=connections, seconds=seconds)
        for name, (begin, step) in held.items()
    }
    found["connections that are reset"] = partial(reset, count=connections)
    found["endless chunks"] = partial(endless_chunks, seconds=seconds)
    for name, pieces in sent.items():
        found[name] = partial(_send_pieces, pieces=pieces)
    return found


def _send_pieces(address: Address, pieces: tuple[bytes, ...]) -> list[int]:
    return send(address, *pieces)


class HealthWatch(threading.Thread):
    """A thread that asks for the health of a server five times a second."""

    def __init__(self, url: str):
        super().__init__(daemon=True)
        self._url, self._done = url, threading.Event()
        self.longest = 0.0

    def run(self) -> None:
        """Ask until `finish` is called."""
        while not self._done.is_set():
            start = time.perf_counter()
            try:
                urlopen(f"{self._url}healthz", timeout=30).close()
                self.longest = max(self.longest, time.perf_counter() - start)
            except (URLError, OSError):
                self.longest = max(self.longest, 30.0)
            self._done.wait(0.2)

    def finish(self) -> float:
        """Stop; return the longest time of an answer in seconds."""
        self._done.set()
        self.join()
        return self.longest


def recover(url: str, photo: bytes) -> float:
    """Return the seconds until a photograph is predicted."""
    start = time.perf_counter()
    while time.perf_counter() - start < 60:
        body = multipart([photo])
        request = Request(f"{url}v1/predict", body, {"Content-Type": MEDIA_TYPE}, method="POST")
        try:
            with urlopen(request, timeout=60):
                return time.perf_counter() - start
        except (HTTPError, URLError, OSError):
            time.sleep(0.1)
    return 60.0


def run_attack(server: ServerProcess, attack: Attack, photo: bytes) -> dict[str, Any]:
    """Run an attack; return its statuses, the health meanwhile and the time of recovery."""
    place = urlsplit(server.url)
    watch = HealthWatch(server.url)
    watch.start()
    statuses = attack((str(place.hostname), int(place.port or 0)))
    recovery = recover(server.url, photo)
    longest = watch.finish()
    documented = all(status < 500 or status == 503 for status in statuses)
    quick = longest <= MAX_HEALTH_SECONDS and recovery <= MAX_RECOVERY_SECONDS
    return {
        "statuses": statuses,
        "longest_health_ms": round(1e3 * longest),
        "recovery_s": round(recovery, 2),
        "good": documented and quick,
    }


def attack_server(model: Path, connections: int, seconds: float) -> dict[str, Any]:
    """Run all attacks against a server with a model; return what happened."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    photo, results = encode(small_scenes()[0].image, "JPEG"), {}
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryFile() as log:
        kept = ("--corrections", str(Path(name) / "corrections.jsonl"))
        with run_server(model, *kept, log=log) as server:
            recover(server.url, photo)
            before = server.resident_mib()
            for kind, attack in attacks(photo, connections, seconds).items():
                results[kind] = run_attack(server, attack, photo)
                print(kind, json.dumps(results[kind]), flush=True)
            growth = server.resident_mib() - before
        log_bytes = log.tell()
    return {
        "connections": connections,
        "seconds": seconds,
        "growth_mib": growth,
        "log_bytes": log_bytes,
        "kinds": results,
    }

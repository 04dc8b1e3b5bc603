"""A real browser that shows the page of a server with a gallery."""

import shutil
from contextlib import contextmanager

import pytest
from tests.scene_model import small_model
from tests.serving import build_index, photograph, run_server, run_threaded_server

from supdocnade.scene.corrections import CorrectionFile

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect

_NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, _NAMES)), None)
needs_a_browser = pytest.mark.skipif(
    BROWSER is None, reason="no browser is installed (Debian: apt-get install chromium)"
)

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


@contextmanager
def run_page_server(folder, **settings):
    """A server with a gallery and corrections in a thread of this process; yields its URL."""
    gallery, photos = build_index(folder)
    corrections = CorrectionFile(folder / "corrections.jsonl")
    with run_threaded_server(gallery, corrections, [photos], **settings) as (_, address):
        yield f"http://127.0.0.1:{address[1]}/"


@contextmanager
def run_page_process(folder, *options):
    """A server with a gallery as a process of its own; yields its URL."""
    build_index(folder)
    small_model().save(folder / "scenes")
    with run_server(folder / "scenes", "--index", folder / "index", *options) as (process, _):
        yield process.url


@contextmanager
def launch_browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def open_page(browser, url, **options):
    """The page; the test fails if it contacts another server or logs an error or a warning."""
    context = browser.new_context(**options)
    page = context.new_page()
    requested, complaints = [], []
    page.on("request", lambda request: requested.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    # The browser logs every response that is not 2xx, including those that the page shows.
    page.on(
        "console",
        lambda message: (
            complaints.append(message.text)
            if message.type in ("error", "warning")
            and "the server responded with" not in message.text
            else None
        ),
    )
    try:
        page.goto(url)
        expect(page.locator("body[data-ready]")).to_be_attached()
        yield page
        elsewhere = [each for each in requested if not each.startswith((url, "blob:", "data:"))]
        assert (elsewhere, complaints) == ([], [])
    finally:
        context.close()


def photo_files(*numbers):
    """Photographs for a file input."""
    return [
        {"name": f"{number}.jpg", "mimeType": "image/jpeg", "buffer": photograph(number)}
        for number in numbers
    ]


BAD_FILE = {"name": "notes.jpg", "mimeType": "image/jpeg", "buffer": b"no image at all"}

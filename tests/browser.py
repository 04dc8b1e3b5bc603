"""A real browser and what it is shown: the page of a server, with a gallery."""

import shutil
from contextlib import contextmanager

import pytest
from tests.drawn import small_model
from tests.serving import indexed, photograph, serving

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect

_NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, _NAMES)), None)
needs_a_browser = pytest.mark.skipif(
    BROWSER is None, reason="no browser is installed (Debian: apt-get install chromium)"
)

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


@contextmanager
def served(folder, *options):
    """A server of a small model and an index; yields its address."""
    indexed(folder)
    small_model().save(folder / "scenes")
    with serving(folder / "scenes", "--index", folder / "index", *options) as (process, _):
        yield process.url


@contextmanager
def launched():
    """A browser."""
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


@contextmanager
def opened(browser, url, **options):
    """The page; fails its test when it asks elsewhere or complains."""
    context = browser.new_context(**options)
    page = context.new_page()
    asked, complaints = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    # The browser itself notes every answer that is not 2xx, also those that the page shows.
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
        elsewhere = [each for each in asked if not each.startswith((url, "blob:", "data:"))]
        assert (elsewhere, complaints) == ([], [])
    finally:
        context.close()


def files(*numbers):
    """Photographs to choose."""
    return [
        {"name": f"{number}.jpg", "mimeType": "image/jpeg", "buffer": photograph(number)}
        for number in numbers
    ]


BAD = {"name": "notes.jpg", "mimeType": "image/jpeg", "buffer": b"no image at all"}

"""A server with a gallery and a browser, for the tests of the page."""

import pytest


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    from tests.browser import run_page_server

    with run_page_server(tmp_path_factory.mktemp("page")) as url:
        yield url


@pytest.fixture(scope="module")
def browser():
    from tests.browser import launch_browser

    with launch_browser() as started:
        yield started

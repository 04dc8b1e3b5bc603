import pytest
from tests.serving import build_index, make_client


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A client of a server with a gallery, shared by the tests that do not change it."""
    gallery, _ = build_index(tmp_path_factory.mktemp("gallery"))
    with make_client(gallery, max_images=4, max_pixels=1_000_000) as client:
        yield client

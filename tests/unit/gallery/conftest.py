import pytest
from tests.scene_model import small_model
from tests.serving import build_index

from supdocnade.gallery.photo_index import Gallery


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gallery")
    build_index(folder)
    return folder


@pytest.fixture
def fitted():
    return small_model().fitted_


@pytest.fixture
def gallery(folder, fitted):
    return Gallery.load(folder / "index", fitted)

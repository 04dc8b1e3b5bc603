"""The package without its extras: everything else works, and one sentence names what is missing.

The extras are hidden here; `nox -s minimal` runs the same tests where they are not installed.
"""

import sys

import pytest
from tests.commands import SMALL, draw, supdocnade

from supdocnade.errors import UnreadableImage, install_command
from supdocnade.images.decode import decode

EXTRAS = (
    *("fastapi", "fsspec", "multipart", "onnx", "onnxruntime", "pillow_heif"),
    "uvicorn",
)
HEIC = b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00heicmif1" + bytes(64)


@pytest.fixture(autouse=True)
def no_extras(monkeypatch):
    for name in EXTRAS:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="module")
def model(photos, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "scenes"
    assert supdocnade("train", photos, "-o", path, *SMALL).code == 0
    return path


@pytest.mark.parametrize("command", ["predict", "evaluate", "index"])
def test_commands_that_need_no_extra_work(command, model, photos):
    done = supdocnade(command, model, photos)
    assert done.code == 0, done.err
    assert done.out


def test_a_report_needs_no_extra(model):
    assert supdocnade("report", model).code == 0
    assert (model / "report.html").is_file()


def test_an_explanation_needs_no_extra(model, photos, tmp_path):
    done = supdocnade("explain", model, photos / "coast/coast_0001.jpg", "-o", tmp_path / "a.png")
    assert done.code == 0, done.err
    assert (tmp_path / "a.png").is_file()


def test_a_place_names_its_extra_in_one_sentence(model):
    place = "s3://bucket/photos"
    for arguments in (("check", place), ("predict", model, place)):
        done = supdocnade(*arguments)
        assert done.code == 1
        assert done.err == f"error: {place} needs an extra: {install_command('remote')}.\n"


def test_serve_names_its_extra_in_one_sentence(model):
    done = supdocnade("serve", model)
    assert done.code == 1
    assert done.out == ""
    assert install_command("serve") in done.err
    assert done.err.count("\n") == 1


def test_networks_name_their_extra(tmp_path):
    done = supdocnade("features", "--json")
    assert done.code == 0
    assert [row["name"] for row in done.objects] == ["sift"]
    assert done.err == f"note: networks need an extra: {install_command('deep')}.\n"
    network = tmp_path / "network.onnx"
    network.write_bytes(b"")
    done = supdocnade("features", "--import", network)
    assert (done.code, done.out) == (1, "")
    assert done.err.endswith(f"is not installed; {install_command('deep')}.\n")


def test_a_heic_photograph_names_its_extra(model, tmp_path):
    photograph = tmp_path / "photo.heic"
    photograph.write_bytes(HEIC)
    with pytest.raises(UnreadableImage, match=r"pip install '.*\[heic\]'"):
        decode(photograph)
    done = supdocnade("predict", model, photograph)
    assert done.code == 1
    assert install_command("heic") in done.err
    assert done.err.count("\n") == 1

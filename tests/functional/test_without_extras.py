"""The package without its extras: everything else works, and one sentence names what is missing.

The extras are hidden here; `nox -s minimal` runs the same tests where they are not installed.
"""

import sys

import pytest
from tests.commands import SMALL, draw, supdocnade

from supdocnade import SceneModel
from supdocnade.errors import InvalidArgument, UnreadableImage
from supdocnade.images.decode import decode

EXTRAS = (
    *("faiss", "fastapi", "multipart", "onnx", "onnxruntime", "pillow_heif", "prometheus_client"),
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


def test_serve_names_its_extra_in_one_sentence(model):
    done = supdocnade("serve", model)
    assert done.code == 1
    assert done.out == ""
    assert "pip install 'supdocnade[serve]'" in done.err
    assert done.err.count("\n") == 1


def test_an_onnx_export_names_its_extra(model, tmp_path):
    with pytest.raises(InvalidArgument, match=r"pip install 'supdocnade\[onnx\]'"):
        SceneModel.load(model).export_onnx(tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_networks_name_their_extra(tmp_path):
    done = supdocnade("features", "--json")
    assert done.code == 0
    assert [row["name"] for row in done.objects] == ["sift"]
    assert done.err == "note: networks need an extra: pip install 'supdocnade[deep]'.\n"
    network = tmp_path / "network.onnx"
    network.write_bytes(b"")
    done = supdocnade(
        "features", "--import", network, *["--side", "8", "--mean", "0", "--scale", "1"]
    )
    assert (done.code, done.out) == (1, "")
    assert done.err.endswith("is not installed; pip install 'supdocnade[deep]'.\n")


def test_a_heic_photograph_names_its_extra(model, tmp_path):
    photograph = tmp_path / "photo.heic"
    photograph.write_bytes(HEIC)
    with pytest.raises(UnreadableImage, match=r"pip install 'supdocnade\[heic\]'"):
        decode(photograph)
    done = supdocnade("predict", model, photograph)
    assert done.code == 1
    assert "pip install 'supdocnade[heic]'" in done.err
    assert done.err.count("\n") == 1

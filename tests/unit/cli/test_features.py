import pytest
from tests.commands import supdocnade

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests import networks

SIFT = {"side": None, "maps": None, "bytes": None}


@pytest.fixture(autouse=True)
def library(tmp_path, monkeypatch):
    return networks.empty_library(tmp_path / "networks", monkeypatch)


@pytest.fixture
def path(tmp_path):
    return networks.write_network(tmp_path / "given.onnx")


def test_networks_are_imported_and_listed(path):
    done = supdocnade("features", "--import", path)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[1].split()[:4] == ["tiny", "8", "×", "8"]
    listed = supdocnade("features")
    header = "name input rows × columns × channels size licence"
    assert listed.out.splitlines()[0].split() == header.split()
    assert listed.out.splitlines()[1].split()[0] == "sift"
    assert listed.out.splitlines()[2] == (
        "tiny  8 × 8                  2 × 2 × 3  0.0 MB       CC0-1.0"
    )
    sift, tiny = supdocnade("features", "--json").objects
    assert sift == {"name": "sift", **SIFT, "licence": "BSD-3-Clause"}
    assert tiny == {
        **{"name": "tiny", "side": 8, "maps": [[2, 2, 3]]},
        **{"bytes": path.stat().st_size, "licence": "CC0-1.0"},
    }


def test_bad_networks_are_named_in_one_line(path, library):
    assert supdocnade("features", "--import", path).code == 0
    (library / "tiny/tiny.onnx").write_bytes(b"")
    done = supdocnade("features", "--json")
    assert done.code == 1
    assert [row["name"] for row in done.objects] == ["sift"]
    assert done.err.startswith("error: ")
    assert "tiny.onnx is damaged: its contents are not" in done.err
    again = supdocnade("features", "--import", path)
    assert (again.code, again.out) == (1, "")
    assert "'tiny' is already installed; remove " in again.err


def test_an_import_that_ctrl_c_ends_is_not_an_error_of_a_network(path, library, monkeypatch):
    assert supdocnade("features", "--import", path).code == 0
    (library / "tiny/tiny.onnx").unlink()
    monkeypatch.setattr("supdocnade.cli.stopping._stopped", True)
    done = supdocnade("features")
    assert (done.code, done.out, done.err) == (130, "", "stopped\n")

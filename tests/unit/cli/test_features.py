import json

import pytest
from tests.commands import supdocnade

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests import networks

DESCRIBED = ("--set", "side=8", "--set", "mean=127", "--set", "scale=128")
SIFT = {"side": None, "maps": None, "bytes": None}


@pytest.fixture(autouse=True)
def library(tmp_path, monkeypatch):
    return networks.empty_library(tmp_path / "networks", monkeypatch)


@pytest.fixture
def path(tmp_path):
    return networks.write_network(tmp_path / "given.onnx")


def bare(path):
    """Remove the description of a network."""
    path.with_suffix(".json").unlink()
    return path


def test_networks_are_imported_listed_and_removed(path):
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
    assert supdocnade("features", "--remove", "tiny").out == "tiny removed\n"
    assert len(supdocnade("features", "--json").objects) == 1
    assert supdocnade("features", "--remove", "tiny", "--json").code == 1


def test_options_describe_a_network(path, library):
    given = ("mean=1,2,3", "color_order=bgr", "licence=MIT", "name=mine")
    options = [part for text in given for part in ("--set", text)]
    done = supdocnade("features", "--import", bare(path), *DESCRIBED, *options, "--json")
    assert done.code == 0, done.err
    (row,) = done.objects
    assert (row["name"], row["licence"]) == ("mine", "MIT")
    description = json.loads((library / "mine/given.json").read_text())
    assert (description["mean"], description["scale"]) == ([1, 2, 3], [128, 128, 128])
    assert description["color_order"] == "bgr"
    assert supdocnade("features", "--remove", "mine", "--json").objects == [{"removed": "mine"}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (DESCRIBED, r"given.json describes the network; --set must not do so, too."),
        (("--remove", "tiny"), "--import and --remove must not both be given."),
        (("--set", "side=0"), "--set side must be a whole number of at least 1, got 0."),
        (("--set", "sides=8"), "--set sides: there is no such setting; did you mean side?"),
    ],
)
def test_conflicting_options_are_named(path, arguments, message):
    done = supdocnade("features", "--import", path, *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1


def test_bad_networks_are_named_in_one_line(path, library):
    assert supdocnade("features", "--import", path).code == 0
    (library / "tiny/given.onnx").write_bytes(b"")
    done = supdocnade("features", "--json")
    assert done.code == 1
    assert [row["name"] for row in done.objects] == ["sift"]
    assert done.err.startswith("error: ")
    assert "given.onnx is damaged: its contents are not" in done.err
    again = supdocnade("features", "--import", path)
    assert (again.code, again.out) == (1, "")
    assert "'tiny' is already installed; supdocnade features --remove tiny" in again.err


def test_an_import_that_ctrl_c_ends_is_not_an_error_of_a_network(path, library, monkeypatch):
    assert supdocnade("features", "--import", path).code == 0
    (library / "tiny/given.onnx").unlink()
    monkeypatch.setattr("supdocnade.cli.stopping._stopped", True)
    done = supdocnade("features")
    assert (done.code, done.out, done.err) == (130, "", "stopped\n")


def test_a_missing_description_is_named(path):
    done = supdocnade("features", "--import", bare(path), "--set", "side=8")
    assert done.code == 2
    assert "given.json, so the network needs --set mean=…, --set scale=…." in done.err


@pytest.mark.parametrize("given", ["mean=1,2", "scale=high", "scale=0", "outputs=a,a"])
def test_settings_of_networks_are_checked_as_those_in_a_file(path, given):
    done = supdocnade("features", "--import", bare(path), *DESCRIBED, "--set", given)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"error: {given.partition('=')[0]} must be ")

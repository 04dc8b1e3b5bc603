from pathlib import Path

from tests.commands import supdocnade
from tests.scene_model import small_model
from tests.serving import photograph

from supdocnade.cli.index import default_index


def test_several_folders_are_indexed_and_updated(tmp_path):
    small_model().save(tmp_path / "scenes")
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, number in ((one, 0), (two, 1)):
        folder.mkdir()
        (folder / "a.jpg").write_bytes(photograph(number))
    (two / "copy.jpg").write_bytes(photograph(0))
    done = supdocnade("index", tmp_path / "scenes", one, two, "--jobs", 1)
    assert done.code == 0
    index = tmp_path / "scenes.index"
    assert done.out == f"3 photographs indexed in {index}\n1 of them is a copy\n"
    (two / "a.jpg").unlink()
    (two / "b.jpg").write_bytes(b"no image")
    done = supdocnade("index", tmp_path / "scenes", one, two, "--jobs", 1, "--json")
    assert done.code == 1
    assert done.objects == [
        {"index": str(index), "n_images": 2, "n_copies": 1, "skipped": [str(two / "b.jpg")]}
    ]
    assert f"error: {two / 'b.jpg'}" in done.err
    missing = supdocnade("index", tmp_path / "scenes", one, tmp_path / "none")
    assert missing.code == 1
    assert "none" in missing.err


def test_the_default_index_is_beside_the_model():
    assert default_index(Path("models/scenes")) == Path("models/scenes.index")
    assert default_index(Path(".")).name == f"{Path.cwd().name}.index"

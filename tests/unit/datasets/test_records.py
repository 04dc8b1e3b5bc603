import numpy as np
import pytest
from tests.published import published

from supdocnade.datasets import records as module
from supdocnade.datasets.records import ImageRecord, copies, distinct_tags
from supdocnade.datasets.scenes import read_labelme, read_scene15
from supdocnade.errors import StorageError


def write(folder, contents):
    records = []
    for i, content in enumerate(contents):
        (folder / f"{i}.jpg").write_bytes(content)
        records.append(ImageRecord(folder / f"{i}.jpg"))
    return records


def test_tags_are_kept_once_in_their_order():
    assert distinct_tags(["b", " a ", "b", "", "  ", "A"]) == ("b", "a", "A")
    assert distinct_tags([]) == ()


def test_copies_share_a_group(tmp_path):
    records = write(tmp_path, [b"one", b"two", b"longer", b"one", b"", b"two", b"", b"ten"])
    groups = copies(records)
    assert groups.tolist() == [0, 1, 2, 0, 3, 1, 3, 4]
    assert groups.dtype == np.int64
    assert copies([]).shape == (0,)


def test_only_files_of_equal_size_are_read(tmp_path, monkeypatch):
    read = []
    digest = module._digest
    monkeypatch.setattr(module, "_digest", lambda path: read.append(path.name) or digest(path))
    copies(write(tmp_path, [b"1", b"22", b"333", b"44"]))
    assert read == ["1.jpg", "3.jpg"]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"gone\.jpg cannot be read: No such file"):
        copies([ImageRecord(tmp_path / "gone.jpg")])


def test_copies_among_the_published_photographs():
    records = read_scene15(published("scene15"))
    groups = copies(records)
    numbers, sizes = np.unique(groups, return_counts=True)
    assert len(records) - len(numbers) == 18
    assert sizes.max() == 2
    pairs = [np.flatnonzero(groups == number) for number in numbers[sizes == 2]]
    across = [pair for pair in pairs if records[pair[0]].label != records[pair[1]].label]
    names = [f"{records[i].label}/{records[i].path.name}" for pair in across for i in pair]
    assert names == ["InsideCity/image_0305.jpg", "TallBuilding/image_0300.jpg"]
    rooms = [pair for pair in pairs if records[pair[0]].label == "LivingRoom"]
    assert len(rooms) == 16


def test_labelme_has_one_photograph_in_two_classes():
    records = read_labelme(published("labelme"))
    groups = copies(records)
    twice = np.flatnonzero(np.bincount(groups) == 2)
    assert [records[i].path.name for i in np.flatnonzero(groups == twice[0])] == [
        "insidecity_urb992.jpg",
        "tallbuilding_urb992.jpg",
    ]
    assert len(twice) == 1

"""The paper's splits of Scene15 and LabelMe, and groups of identical files."""

from collections import Counter

import numpy as np
import pytest
from experiments import splits as module
from experiments.splits import duplicate_groups, split_labelme, split_scene15
from tests.published_data import published

from supdocnade.errors import StorageError
from supdocnade.folders.photo_folder import ImageRecord
from supdocnade.paper.data_sets import read_labelme, read_scene15


def counts(labels, indices):
    return dict(Counter(labels[index] for index in indices))


def write_records(folder, contents):
    records = []
    for i, content in enumerate(contents):
        (folder / f"{i}.jpg").write_bytes(content)
        records.append(ImageRecord(folder / f"{i}.jpg"))
    return records


def test_identical_files_share_a_group(tmp_path):
    records = write_records(tmp_path, [b"one", b"two", b"longer", b"one", b"", b"two", b"", b"ten"])
    groups = duplicate_groups(records)
    assert groups.tolist() == [0, 1, 2, 0, 3, 1, 3, 4]
    assert groups.dtype == np.int64
    assert duplicate_groups([]).shape == (0,)


def test_only_files_of_equal_size_are_read(tmp_path, monkeypatch):
    read = []
    digest = module._digest
    monkeypatch.setattr(module, "_digest", lambda path: read.append(path.name) or digest(path))
    duplicate_groups(write_records(tmp_path, [b"1", b"22", b"333", b"44"]))
    assert read == ["1.jpg", "3.jpg"]


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(StorageError, match=r"gone\.jpg cannot be read: No such file"):
        duplicate_groups([ImageRecord(tmp_path / "gone.jpg")])


def test_duplicates_in_scene15():
    records = read_scene15(published("scene15"))
    groups = duplicate_groups(records)
    numbers, sizes = np.unique(groups, return_counts=True)
    assert len(records) - len(numbers) == 18
    assert sizes.max() == 2
    pairs = [np.flatnonzero(groups == number) for number in numbers[sizes == 2]]
    across = [pair for pair in pairs if records[pair[0]].label != records[pair[1]].label]
    names = [f"{records[i].label}/{records[i].path.name}" for pair in across for i in pair]
    assert names == ["InsideCity/image_0305.jpg", "TallBuilding/image_0300.jpg"]
    rooms = [pair for pair in pairs if records[pair[0]].label == "LivingRoom"]
    assert len(rooms) == 16


def test_duplicates_in_labelme():
    records = read_labelme(published("labelme"))
    groups = duplicate_groups(records)
    twice = np.flatnonzero(np.bincount(groups) == 2)
    assert [records[i].path.name for i in np.flatnonzero(groups == twice[0])] == [
        "insidecity_urb992.jpg",
        "tallbuilding_urb992.jpg",
    ]
    assert len(twice) == 1


def test_identical_files_are_on_one_side_unless_asked_otherwise(tmp_path):
    records = []
    for i in range(400):
        (tmp_path / f"{i:03}.jpg").write_bytes(b"%03d" % (i // 2))
        records.append(ImageRecord(tmp_path / f"{i:03}.jpg", "a"))
    together = split_scene15(records, seed=0)
    assert len(together.train) == 100
    assert set(together.train // 2).isdisjoint(together.test // 2)
    apart = split_scene15(records, seed=0, keep_duplicates_together=False)
    assert not set(apart.train // 2).isdisjoint(apart.test // 2)


@pytest.mark.parametrize("number", range(3))
def test_split_of_scene15(number):
    records = read_scene15(published("scene15"))
    labels = [record.label for record in records]
    groups = duplicate_groups(records)
    train, test = split_scene15(records, seed=7, number=number)
    assert set(counts(labels, train).values()) == {100}
    assert len(train) + len(test) == 4485
    assert not set(groups[train]) & set(groups[test])
    loose = split_scene15(records, seed=7, number=number, keep_duplicates_together=False)
    assert set(counts(labels, loose.train).values()) == {100}
    assert set(groups[loose.train]) & set(groups[loose.test])


def test_split_of_labelme():
    records = read_labelme(published("labelme"))
    labels = [record.label for record in records]
    groups = duplicate_groups(records)
    for number in range(5):
        train, test = split_labelme(records, seed=0, number=number)
        assert set(counts(labels, train).values()) == set(counts(labels, test).values()) == {100}
        assert not set(groups[train]) & set(groups[test])

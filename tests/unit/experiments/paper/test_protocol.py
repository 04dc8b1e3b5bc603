"""Pool and splits: sizes, near-duplicates together, no dependence on order, stored files."""

import hashlib
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from experiments.paper.data_sets import read_photo_set
from experiments.paper.protocol import (
    STORED,
    make_protocols,
    read_protocol,
    read_rows,
    split_records,
    write_protocol,
)
from tests.photosets import OTHER_NUMBERS, draw_labelme

from supdocnade.errors import StorageError
from supdocnade.folders.photo_folder import ImageRecord
from supdocnade.images.decode import decode, write_image

pytestmark = pytest.mark.filterwarnings(OTHER_NUMBERS)


def test_every_photograph_has_a_role_in_every_split(drawn):
    photos = read_photo_set("labelme", drawn)
    protocol = make_protocols({"labelme": photos})["labelme"]
    labels = np.array(photos.labels)
    assert protocol.n_splits == 5
    for split in range(5):
        parts = protocol.parts(split)
        assert sorted([*parts.fit, *parts.held, *parts.test]) == list(range(len(photos)))
        assert parts.train.tolist() == sorted([*parts.fit, *parts.held])
        assert set(Counter(labels[parts.train].tolist()).values()) == {4}
        assert set(Counter(labels[parts.held].tolist()).values()) == {1}
    assert len({tuple(protocol.parts(split).test) for split in range(5)}) == 5
    assert set(Counter(labels[protocol.pool_B].tolist()).values()) == {2}


def test_near_duplicates_stay_together_across_data_sets(tmp_path):
    first = read_photo_set("labelme", draw_labelme(tmp_path / "labelme"))
    more = read_photo_set("labelme", draw_labelme(tmp_path / "more", seed=5))
    paths = []
    for number, path in enumerate(first.paths):  # Grey copies, as Scene15 has of LabelMe's.
        paths.append(tmp_path / f"{number}.png")
        write_image(paths[-1], decode(path))
    large = replace(
        first,
        dataset="scene15",
        names=first.names + more.names,
        labels=first.labels + more.labels,
        # Its other pictures would be in the pool before any copy, were that not seen to.
        digests=tuple(f"f{n:015x}" for n in range(64)) + tuple(f"0{n:015x}" for n in range(64)),
        paths=(*paths, *more.paths),
    )
    found = make_protocols({"scene15": large, "labelme": first})
    assert found["scene15"].picture_B[:64].tolist() == found["labelme"].picture_B.tolist()
    assert found["scene15"].pool_B[:64].tolist() == found["labelme"].pool_B.tolist()
    pool = np.array(first.labels)[found["labelme"].pool_B]
    assert set(Counter(pool.tolist()).values()) == {2}  # A third of eight.
    pool = np.array(large.labels)[found["scene15"].pool_B]
    assert set(Counter(pool.tolist()).values()) == {5}


def test_a_protocol_on_disk_is_the_same(drawn, tmp_path):
    photos = read_photo_set("labelme", drawn)
    protocol = make_protocols({"labelme": photos})["labelme"]
    write_protocol(tmp_path / "p.json", photos, protocol)
    again = read_protocol(tmp_path / "p.json", photos)
    assert again.roles == protocol.roles
    assert not again.stored
    assert again.pool_B.tolist() == protocol.pool_B.tolist()
    same = [np.unique(each.picture_B, return_inverse=True)[1] for each in (again, protocol)]
    assert len(set(zip(*(each.tolist() for each in same), strict=True))) == same[0].max() + 1
    with pytest.raises(StorageError, match="must be for these photographs, it is for others"):
        read_protocol(tmp_path / "p.json", photos.take([0, 1]))
    (tmp_path / "p.json").write_text("{}")
    with pytest.raises(StorageError, match=r"p\.json must hold a protocol"):
        read_rows(tmp_path / "p.json")


@pytest.mark.parametrize(
    ("name", "photographs", "rows_digest"),
    [
        (
            "scene15",
            "e913c590579f6237459c195b51b91ba0",
            "e2b17810b245a17424916a1d15809d1385177cad339b18d81c120f29d39f91bc",
        ),
        (
            "labelme",
            "ae6284932cf5dc5805dfd0601e349317",
            "9f985b2b8484a1c7d71359e7e2d589114842dd855ea5466c399468cf93f5e434",
        ),
    ],
)
def test_stored_protocols_do_not_change(name, photographs, rows_digest):
    """Both digests were computed when files listed the digests of all photographs."""
    found, rows = read_rows(STORED / f"{name}.json")
    assert found == photographs
    assert hashlib.sha256(json.dumps(rows).encode()).hexdigest() == rows_digest


def test_identical_files_are_on_one_side_of_a_split(tmp_path):
    records = []
    for i in range(400):
        (tmp_path / f"{i:03}.jpg").write_bytes(b"%03d" % (i // 2))
        records.append(ImageRecord(tmp_path / f"{i:03}.jpg", "a"))
    train, test = split_records("scene15", records, seed=0)
    assert (len(train), len(test)) == (100, 300)
    assert set(train // 2).isdisjoint(test // 2)
    assert set(split_records("scene15", records, seed=0, number=1).train) != set(train)

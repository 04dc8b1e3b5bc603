from dataclasses import replace

import numpy as np
import pytest
from tests.unit.gallery.test_segment import photographs

from supdocnade.gallery import neighbours
from supdocnade.gallery.neighbours import nearest_rows, open_approximate, write_approximate
from supdocnade.gallery.segment import Photograph, Segment, Widths, write_block

WIDTHS = Widths(topics=8, classes=2, tags=3)


@pytest.fixture(scope="module")
def segment(tmp_path_factory):
    rng = np.random.default_rng(0)
    centres = 5 * rng.random((20, 8), np.float32)
    given = [
        Photograph(**{**vars(each), "topics_H": centres[row % 20] + rng.random(8, np.float32)})
        for row, each in enumerate(photographs(2000))
    ]
    folder = tmp_path_factory.mktemp("segment")
    return Segment(folder, write_block(folder, "000000", given, WIDTHS), WIDTHS)


def true_nearest(segment, topics_H, top, is_deleted_N=None):
    away_N = np.linalg.norm(segment.arrays["topics"].astype(np.float64) - topics_H, axis=1)
    if is_deleted_N is not None:
        away_N[is_deleted_N] = np.inf
    return np.argsort(away_N, kind="stable")[:top].tolist()


def found(segment, topics_H, top, is_deleted_N=None, approximate=None):
    rows, distances = nearest_rows(segment, topics_H, top, is_deleted_N, approximate)
    return rows[np.argsort(distances, kind="stable")][:top].tolist()


def test_the_exact_search_finds_the_nearest_in_all_blocks(segment, monkeypatch):
    monkeypatch.setattr(neighbours, "_BLOCK", 300)
    is_deleted_N = np.random.default_rng(1).random(2000) < 0.3
    for row in (0, 3, 1999):
        topics_H = segment.arrays["topics"][row]
        assert found(segment, topics_H, 10) == true_nearest(segment, topics_H, 10)
        expected = true_nearest(segment, topics_H, 10, is_deleted_N)
        assert found(segment, topics_H, 10, is_deleted_N) == expected
        rows, distances = nearest_rows(segment, topics_H, 1, None)
        assert distances[rows == row].tolist() == [0.0]
    assert len(found(segment, topics_H, 5000)) == 2000


def test_large_segments_are_searched_with_an_inverted_file(segment, monkeypatch):
    pytest.importorskip("faiss")
    assert write_approximate(segment) is None  # The segment is small.
    monkeypatch.setattr(neighbours, "MIN_INVERTED", 2000)
    digest = write_approximate(segment)
    assert write_approximate(segment) == digest  # It is the same every time.
    assert open_approximate(segment) is None
    monkeypatch.setattr(segment, "entry", replace(segment.entry, approximate=digest))
    approximate = open_approximate(segment)
    is_deleted_N = np.random.default_rng(1).random(2000) < 0.3
    hits = 0
    for row in range(0, 2000, 50):
        topics_H = segment.arrays["topics"][row]
        hits += len(
            set(found(segment, topics_H, 10, None, approximate))
            & set(true_nearest(segment, topics_H, 10))
        )
        assert not is_deleted_N[found(segment, topics_H, 10, is_deleted_N, approximate)].any()
    assert hits >= 0.99 * 400
    path = neighbours.approximate_path(segment)
    content = path.read_bytes()
    path.unlink()  # The file itself is still in use.
    path.write_bytes(content[:-1] + b"x")
    assert open_approximate(segment) is None

from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file

from supdocnade.errors import StorageError
from supdocnade.gallery.segment import (
    Photograph,
    Segment,
    SegmentEntry,
    Widths,
    _header,
    _layout,
    _write,
    merge_segments,
    segment_path,
    write_block,
)

WIDTHS = Widths(topics=4, classes=2, tags=3)


def photographs(n, seed=0):
    rng = np.random.default_rng(seed)
    return [
        Photograph(
            folder=seed,
            name=f"a/{seed} {number}é\udc80.jpg",
            words=f" a {seed} {number}e jpg",
            stamp=(number, 10**18 + number),
            topics_H=rng.random(4, np.float32),
            proba_C=rng.random(2, np.float32),
            presence_A=rng.random(3, np.float32),
            picture=rng.bytes(10 + number),
        )
        for number in range(n)
    ]


def check_rows(segment, expected):
    assert len(segment) == len(expected)
    assert list(segment.keys()) == [(each.folder, each.name, each.stamp) for each in expected]
    for row, each in enumerate(expected):
        assert segment.picture(row) == each.picture
        assert np.array_equal(segment.arrays["topics"][row], each.topics_H)
        assert np.array_equal(segment.arrays["proba"][row], each.proba_C)
        assert np.array_equal(segment.arrays["presence"][:, row], each.presence_A)
        assert segment.arrays["norms"][row] == pytest.approx(np.square(each.topics_H).sum())


def test_a_segment_is_read_as_it_was_written(tmp_path):
    given = photographs(5)
    segment = Segment(tmp_path, write_block(tmp_path, "000001", given, WIDTHS), WIDTHS)
    check_rows(segment, given)
    assert segment.rows_with_word("3").tolist() == [3]
    assert segment.rows_with_word("jp").tolist() == [0, 1, 2, 3, 4]
    assert segment.rows_with_word("e").tolist() == []
    # Other programs read the arrays as an ordinary safetensors file.
    others = load_file(segment_path(tmp_path, "000001"))
    assert others.keys() == segment.arrays.keys()
    assert all(np.array_equal(others[name], segment.arrays[name]) for name in others)


def test_merging_keeps_chosen_rows_in_order(tmp_path):
    one, two = photographs(5), photographs(4, seed=1)
    first = Segment(tmp_path, write_block(tmp_path, "000001", one, WIDTHS), WIDTHS)
    second = Segment(tmp_path, write_block(tmp_path, "000002", two, WIDTHS), WIDTHS)
    parts = [(first, np.array([1, 4])), (second, np.array([0, 1, 3]))]
    merged = Segment(tmp_path, merge_segments(tmp_path, "000003", parts, WIDTHS), WIDTHS)
    check_rows(merged, [one[1], one[4], two[0], two[1], two[3]])


def test_models_without_classes_and_tags_have_narrow_segments(tmp_path):
    empty = np.empty(0, np.float32)
    given = [
        Photograph(**{**vars(each), "proba_C": empty, "presence_A": empty})
        for each in photographs(2)
    ]
    widths = Widths(topics=4, classes=0, tags=0)
    check_rows(Segment(tmp_path, write_block(tmp_path, "000001", given, widths), widths), given)


def test_a_damaged_picture_is_found_when_it_is_read(tmp_path):
    entry = write_block(tmp_path, "000001", photographs(3), WIDTHS)
    path = tmp_path / "segment-000001.pictures"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    segment = Segment(tmp_path, entry, WIDTHS)
    segment.picture(1)
    with pytest.raises(StorageError, match="run supdocnade index again"):
        segment.picture(2)


def test_a_segment_of_another_model_is_refused(tmp_path):
    entry = write_block(tmp_path, "000001", photographs(3), WIDTHS)
    with pytest.raises(StorageError, match="header"):
        Segment(tmp_path, entry, Widths(topics=5, classes=2, tags=3))


def test_ten_million_photographs_have_a_short_header():
    entry = SegmentEntry("000001", 10**7, 60 * 10**7, 60 * 10**7, "")
    assert len(_header(entry, Widths(topics=512, classes=15, tags=200))) < 2000


@pytest.mark.parametrize(
    ("name", "entry", "value", "message"),
    [
        ("name_ends", 1, 2**62, "name_ends must rise"),
        ("word_ends", 0, -1, "word_ends must rise"),
        ("picture_ends", 0, 2**62, "picture_ends must rise"),
        ("topics", (0, 1), np.inf, "topics must be finite"),
        ("presence", (2, 1), np.nan, "presence must be finite"),
        ("names", 0, 255, "a name is no text"),
    ],
)
def test_wrong_values_are_refused_although_the_digest_is_right(
    tmp_path, name, entry, value, message
):
    given = photographs(3)
    written = write_block(tmp_path, "000001", given, WIDTHS)
    arrays = Segment(tmp_path, written, WIDTHS).arrays
    columns = {key: arrays[key].copy() for key in _layout(written, WIDTHS)}
    columns[name][entry] = value
    other = replace(written, name="000002")
    pictures = [each.picture for each in given]
    spoiled = _write(tmp_path, other, WIDTHS, columns.values(), pictures)
    with pytest.raises(StorageError, match=message):
        Segment(tmp_path, spoiled, WIDTHS).name(0)

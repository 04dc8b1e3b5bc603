import numpy as np
import pytest
from experiments.data import read_class_numbers, read_lda_c

from supdocnade.errors import StorageError


@pytest.fixture
def file(tmp_path):
    return tmp_path / "bags.dat"


def test_counts_by_hand(file):
    file.write_bytes(b"2 4:1 0:3\r\n0\r\n1 2:7\r\n\r\n")
    counts = read_lda_c(file)
    assert counts.toarray().tolist() == [[3, 0, 0, 0, 1], [0] * 5, [0, 0, 7, 0, 0]]
    assert counts.dtype == np.int64
    assert counts.indices.tolist() == [0, 4, 2]
    assert read_lda_c(str(file), n_words=9).shape == (3, 9)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("2 0:1", "a number, and as many pairs word:count, got '2 and 1 pairs'"),
        ("0:1 1:1", "a number, and as many pairs word:count, got '0:1 and 1 pairs'"),
        ("", "a number, and as many pairs word:count, got ' and 0 pairs'"),
        ("-1", "a number, and as many pairs"),
        ("1 0", "word:count with a count of at least 1, got '0'"),
        ("1 0:0", "word:count with a count of at least 1, got '0:0'"),
        ("1 0:-2", "word:count with a count of at least 1, got '0:-2'"),
        ("1 0:1.5", "word:count with a count of at least 1, got '0:1.5'"),
        ("1 1_0:1", "word:count with a count of at least 1, got '1_0:1'"),
        ("1 ٣:1", "word:count with a count of at least 1"),
        ("1 -1:1", "word:count with a count of at least 1"),
        ("1 9999999999:1", "word:count with a count of at least 1"),
        ("2 3:1 3:1", "each word once, got '2 3:1 3:1'"),
        ("1 5:1", "words below 5, got '5:1'"),
    ],
)
def test_invalid_lines_are_reported(file, line, expected):
    file.write_text(f"1 0:1\n{line}\n1 0:1\n", encoding="utf-8")
    with pytest.raises(StorageError) as raised:
        read_lda_c(file, n_words=5)
    assert str(raised.value).startswith(f"{file}, line 2: expected {expected}")


def test_class_numbers(file):
    file.write_bytes(b"3\r\n0\r\n 12 \r\n")
    assert read_class_numbers(file).tolist() == [3, 0, 12]
    for line in ("-1", "1.0", "coast", "", "1 2", "1_0"):
        file.write_text(f"0\n{line}\n0\n")
        with pytest.raises(StorageError, match="line 2: expected a whole number from 0"):
            read_class_numbers(file)

"""A record of every kind of field is read back; what a file must not hold is refused."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.schema import (
    array,
    from_file,
    load,
    load_arrays,
    save,
    save_arrays,
    stored,
    to_file,
)


def test_arrays_and_description_are_read_back(tmp_path):
    path = tmp_path / "deep" / "file.safetensors"
    arrays = {"a": np.arange(6.0).reshape(2, 3).T, "empty": np.zeros((0, 4), np.int32)}
    arrays["scalar"] = np.array(3.0)
    save_arrays(path, arrays, {"words": ["Straße", "\u2028"], "n": 3})
    loaded, description = load_arrays(path)
    assert description == {"words": ["Straße", "\u2028"], "n": 3}
    assert loaded.keys() == arrays.keys()
    for name in arrays:
        np.testing.assert_array_equal(loaded[name], arrays[name])
        assert loaded[name].dtype == arrays[name].dtype
        assert loaded[name].shape == arrays[name].shape


def test_every_truncation_and_every_flipped_bit_is_refused(tmp_path):
    path = tmp_path / "file"
    # 1e-05 has other spellings: even those are damage.
    save_arrays(path, {"a": np.arange(3.0)}, {"n": 1, "x": 1e-05, "é": "\u00e9"})
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(StorageError, match=r"damaged, or not a file"):
            load_arrays(path)
    for place in range(len(content)):
        for bit in range(8):
            mutated = bytearray(content)
            mutated[place] ^= 1 << bit
            path.write_bytes(mutated)
            with pytest.raises(StorageError):
                load_arrays(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"none cannot be read: No such file"):
        load_arrays(tmp_path / "none")


def test_a_description_must_be_an_object(tmp_path):
    save_arrays(tmp_path / "file", {}, [1])  # type: ignore[arg-type]
    with pytest.raises(StorageError, match="not a JSON object"):
        load_arrays(tmp_path / "file")


class Word(NamedTuple):
    text: str
    score: float


@dataclass(frozen=True, kw_only=True)
class Inner:
    name: str
    scale_A: NDArray[np.float32] = array("A", np.float32)


@dataclass(frozen=True, kw_only=True)
class Everything:
    temperature: float = stored(above=0)
    count: int = stored(least=1, most=9)
    flag: bool
    names: tuple[str, ...] | None = stored(axis="H")
    classes: tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
    pair: tuple[int, str]
    words: tuple[tuple[Word, ...], ...]
    shares: dict[str, float] = stored(least=0, most=1)
    inner: Inner
    other: Inner | None
    settings: dict[str, Any]
    weight_HK: NDArray[np.float64] = array("HK")
    bias_H: NDArray[np.float64] | None = array("H", default=None)
    places: list[str] = stored(axis="P")
    labels: tuple[str | None, ...] = stored(axis="P")
    tags: list[tuple[str, ...] | None] | None = stored(None, axis="P")
    pictures: tuple[bytes, ...] = array("P")
    half_N: NDArray[np.float32] = array(dtype=np.float32, stored_as=np.float16)
    parameters: dict[str, NDArray[np.float32]] = array(dtype=np.float32)

    def __post_init__(self) -> None:
        if self.count == 7:
            raise InvalidArgument("count must not be 7")


RECORD = Everything(
    temperature=0.5,
    count=3,
    flag=True,
    names=("a", "b"),
    classes=("x", "y"),
    pair=(1, "one"),
    words=((Word("sea", 0.5),), ()),
    shares={"sea": 0.25},
    inner=Inner(name="in", scale_A=np.ones(3, np.float32)),
    other=None,
    settings={"grid": [1, 2], "size": None},
    weight_HK=np.ones((2, 4)),
    bias_H=np.zeros(2),
    places=["Straße", "\udc80 no Unicode", ""],
    labels=("sea", None, "sea"),
    tags=[("sky", "sea"), None, ()],
    pictures=(b"", b"abc", b"d"),
    half_N=np.array([0.5, 3], np.float32),
    parameters={"a": np.ones((1, 2), np.float32), "b": np.ones(3, np.float32)},
)


def read(arrays, description):
    return from_file("Thing", Everything, arrays, description, "a file")


def test_a_record_is_read_back(tmp_path):
    save(tmp_path / "thing", "Thing", RECORD)
    found = load(tmp_path / "thing", "Thing", Everything)
    for name in vars(RECORD).keys() - {"inner", "weight_HK", "bias_H", "half_N", "parameters"}:
        assert getattr(found, name) == getattr(RECORD, name), name
        assert type(getattr(found, name)) is type(getattr(RECORD, name)), name
    assert isinstance(found.words[0][0], Word)
    for one, other in (
        (found.inner.scale_A, RECORD.inner.scale_A),
        (found.half_N, RECORD.half_N),
        (found.parameters["b"], RECORD.parameters["b"]),
    ):
        np.testing.assert_array_equal(one, other)


def test_other_kinds_and_formats_are_named(tmp_path):
    save(tmp_path / "thing", "Thing", RECORD)
    with pytest.raises(StorageError, match="holds a 'Thing', not a Table"):
        load(tmp_path / "thing", "Table", Everything)
    arrays, description = load_arrays(tmp_path / "thing")
    save_arrays(tmp_path / "thing", arrays, {**description, "format": 9})
    with pytest.raises(StorageError, match="has format 9, this version reads 7"):
        load(tmp_path / "thing", "Thing", Everything)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"temperature": 0}, "temperature must be a finite number above 0, got 0"),
        ({"temperature": None}, "temperature must be of type float, got None"),
        ({"temperature": 10**30}, "temperature must be a number of 64 bits"),
        ({"count": 3.0}, "count must be of type int, got 3.0"),
        ({"count": True}, "count must be of type int, got True"),
        ({"count": 10}, "count must be a finite number"),
        ({"count": 7}, "count must not be 7"),
        ({"flag": 1}, "flag must be of type bool, got 1"),
        ({"names": ["a"]}, "the length 1 of names must be 2, that of axis H elsewhere"),
        ({"names": "ab"}, "names must be a list, got 'ab'"),
        ({"classes": [1, "a"]}, "classes must be "),
        ({"pair": [1]}, "pair must have 2 values"),
        ({"words": [[{"text": "sea"}]]}, r"words\[0\]\[0\] must have \['score', 'text'\]"),
        ({"shares": {"sea": 2}}, r"shares.sea must be a finite number"),
        ({"shares": []}, "shares must be an object"),
        ({"places": ["a", "b"]}, "the length 2 of places must be 3, that of axis P elsewhere"),
        ({"places": ["a", "b", None]}, r"places\[2\] must be of type str, got None"),
        ({"tags": [["a"], [3], None]}, r"tags\[1\]\[0\] must be of type str, got 3"),
        ({"inner": {"name": 3}}, "inner.name must be of type str, got 3"),
        ({"other": {"name": "x"}}, "it must have an array other/scale_A"),
        ({"more": 3}, "it must have "),
    ],
)
def test_descriptions_that_do_not_fit_are_refused(changes, sentence):
    arrays, description = to_file("Thing", RECORD)
    with pytest.raises(StorageError, match=f"^a file is damaged: {sentence}"):
        read(arrays, {**description, **changes})


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("weight_HK", np.ones((2, 4), np.float32), "weight_HK must be float64, got float32"),
        ("weight_HK", np.ones(2), r"weight_HK must have 2 axes, got shape \(2,\)"),
        ("weight_HK", np.full((2, 4), np.inf), "weight_HK must be finite"),
        ("bias_H", np.ones(3), "the length 3 of bias_H must be 2, that of axis H elsewhere"),
        ("inner/scale_A", np.ones(3), "inner/scale_A must be float32"),
        ("parameters/c", np.ones(3), "parameters/c must be float32"),
        ("half_N", np.ones(2, np.float32), "half_N must be float16, got float32"),
        ("else", np.ones(3), "it must not hold an array 'else'"),
        ("weight_HK", None, "it must have an array weight_HK"),
        ("pictures_offsets", np.array([0, 1, 2, 9]), "pictures_offsets must rise from 0 to 4"),
        ("pictures_offsets", np.array([[0, 4]]), "pictures_offsets must rise from 0 to 4"),
        ("pictures_offsets", None, "it lacks 'pictures_offsets'"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name, value, sentence):
    arrays, description = to_file("Thing", RECORD)
    changed = {key: each for key, each in {**arrays, name: value}.items() if each is not None}
    with pytest.raises(StorageError, match=f"^a file is damaged: {sentence}"):
        read(changed, description)


def test_an_array_that_may_be_missing_is_none():
    arrays, description = to_file("Thing", RECORD)
    assert read({k: v for k, v in arrays.items() if k != "bias_H"}, description).bias_H is None


def test_what_could_not_be_read_is_not_saved(tmp_path):
    for name, value in (
        ("weight_HK", np.ones((3, 4))),
        ("settings", {1: 2}),
        ("half_N", np.array([1e6])),
        ("labels", ("sea", 3, None)),
    ):
        changed = Everything(**{**vars(RECORD), name: value})
        with pytest.raises(InvalidArgument, match=r"^this Thing cannot be saved: "):
            save(tmp_path / "thing", "Thing", changed)
    assert list(tmp_path.iterdir()) == []


def test_scalars_of_numpy_are_saved():
    changed = {"count": np.int8(3), "temperature": np.float32(0.5), "flag": np.bool_(True)}
    changed["settings"] = {"grid": np.array([1, 2]), "size": None}
    _, description = to_file("Thing", Everything(**{**vars(RECORD), **changed}))
    assert description == to_file("Thing", RECORD)[1]

"""MIR-Flickr: its published layout, and the study of its labels on drawn scenes."""

import json

import numpy as np
import pytest
from tests.commands import supdocnade
from tests.photosets import OTHER_NUMBERS, draw_mirflickr

from supdocnade.errors import StorageError
from supdocnade.folders.metadata import split_labels
from supdocnade.paper.mirflickr import METHODS, read_mirflickr, split_photographs

pytestmark = pytest.mark.filterwarnings(OTHER_NUMBERS)


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    return draw_mirflickr(tmp_path_factory.mktemp("mirflickr"))


def write(folder, photographs=("im2.jpg", "im10.jpg"), labels=None, tags=None):
    for name in photographs:
        (folder / name).write_bytes(b"")
    for name, text in {**(labels or {}), **(tags or {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_the_published_layout(tmp_path):
    labels = {"annotations/sky.txt": "10\n2\n", "annotations/sky_r1.txt": "2\r\n\r\n"}
    labels["annotations/README.txt"] = "Labels of MIR-Flickr."
    names = ("im2.jpg", "im10.jpg", "im30.jpg", "image.jpg")
    write(tmp_path, names, labels, {"meta/tags/tags10.txt": "sea\nsunset\n"})
    with pytest.warns(UserWarning, match=r"3 \(25000\) with 2 labels \(38\)"):
        records = read_mirflickr(tmp_path)
    assert [record.path.name for record in records] == ["im2.jpg", "im10.jpg", "im30.jpg"]
    assert [split_labels(record.label) for record in records] == [("sky", "sky_r1"), ("sky",), ()]
    assert [record.tags for record in records] == [None, ("sea", "sunset"), None]


@pytest.mark.parametrize(
    ("photographs", "labels", "message"),
    [
        ((), {}, "must hold the photographs of MIR-Flickr, im1.jpg and so on"),
        (("im1.jpg",), {}, "annotations must hold a file per label, such as sky.txt"),
        (("im1.jpg",), {"annotations/sky.txt": "1\n7\n"}, r"sky.txt, line 2: expected the number"),
        (("im1.jpg",), {"annotations/sky.txt": "sky\n"}, r"sky.txt, line 1: .* got 'sky'"),
    ],
)
def test_other_files_are_refused(tmp_path, photographs, labels, message):
    with pytest.raises(StorageError, match=message):
        read_mirflickr(write(tmp_path, photographs, labels))


def test_splits():
    parts = split_photographs(50, 0)
    assert [len(part) for part in parts] == [20, 10, 20]
    assert sorted(np.concatenate(parts)) == list(range(50))
    assert any((a != b).any() for a, b in zip(parts, split_photographs(50, 1), strict=True))


def reproduce(photographs, out, *more):
    return supdocnade(
        *("reproduce", "mirflickr", "--data", photographs, "--out", out),
        *("--quick", "--jobs", 1, *more),
    )


def test_the_study(photographs, tmp_path):
    done = reproduce(photographs, tmp_path / "study", "--json", "--splits", 1)
    assert done.code == 0, done.err
    (found,) = done.objects
    assert set(found["mean_average_precision"]) == set(METHODS)
    assert len(found["splits"]) == 1
    words = (tmp_path / "study" / "words" / "0.safetensors").read_bytes()
    # Two splits: the first is not computed again.
    again = reproduce(photographs, tmp_path / "study")
    assert again.code == 0, again.err
    stored = json.loads((tmp_path / "study" / "results.json").read_text())
    assert stored["splits"][0] == found["splits"][0]
    assert len(stored["splits"]) == 2
    assert (tmp_path / "study" / "words" / "0.safetensors").read_bytes() == words
    for method in METHODS:
        values = [split[method]["mean_average_precision"] for split in stored["splits"]]
        summary = stored["mean_average_precision"][method]
        assert summary["mean"] == np.mean(values)
        assert f"{summary['mean']:.3f}" in again.out
    # Tags are labels here, so that they help where they are given.
    by_method = stored["mean_average_precision"]
    assert by_method[METHODS[2]]["mean"] > by_method[METHODS[0]]["mean"]
    other = reproduce(draw_mirflickr(tmp_path / "other", 3), tmp_path / "study")
    assert other.code != 0
    assert "must be new or hold a study with these settings" in other.err


def test_it_needs_photographs_and_has_no_stages(tmp_path):
    for arguments in ([], ["--data", tmp_path, "--stage", "words"]):
        done = supdocnade("reproduce", "mirflickr", *arguments)
        assert done.code != 0
        assert "mirflickr needs --data, and has no stages" in done.err

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from tests.scene_model import small_model
from tests.serving import photograph

from supdocnade.errors import StorageError
from supdocnade.gallery.build import build_gallery
from supdocnade.gallery.manifest import Manifest, write_manifest
from supdocnade.gallery.photo_index import Gallery, _having_word, model_fingerprint
from supdocnade.storage import load_arrays, save_arrays


def topics(gallery):
    return np.stack([gallery.topics(number) for number in range(len(gallery))])


def test_an_index_holds_what_the_model_says(gallery):
    assert len(gallery) == 24
    files = [photograph(int(gallery.name(number)[-6:-4])) for number in range(24)]
    assert np.array_equal(topics(gallery), small_model().transform(files))
    for row, said in enumerate(small_model().iter_predictions(files)):
        label, probability = gallery.label(row)
        assert label == said.label
        assert probability == pytest.approx(said.probability, rel=1e-6)
        assert dict(gallery.tags(row)) == pytest.approx(dict(said.tags), rel=1e-6)


def test_the_nearest_are_the_nearest(gallery):
    topics_NH = topics(gallery).astype(np.float64)
    found = gallery.nearest(gallery.topics(7), 24)
    away_N = np.linalg.norm(topics_NH - topics_NH[7], axis=1)
    assert [row for row, _ in found] == np.argsort(away_N, kind="stable").tolist()
    assert found[0] == (7, 0.0)
    others = gallery.nearest(gallery.topics(7), 100, but=7)
    assert [row for row, _ in others] == [row for row, _ in found[1:]]


def test_photographs_are_found_by_class_and_tag(gallery):
    for label in gallery.classes:
        rows, matches = gallery.search(label=label)
        assert {gallery.label(row)[0] for row in rows} <= {label}
        assert matches.tolist() == [gallery.label(row)[1] for row in rows]
        assert (np.diff(matches) <= 0).all()
    assert sum(len(gallery.search(label=label)[0]) for label in gallery.classes) == 24
    tag = gallery.tags(0)[0][0]
    assert sorted(gallery.search(tags=[tag])[0]) == [
        row for row in range(24) if tag in dict(gallery.tags(row))
    ]
    assert len(gallery.search()[0]) == 24


def test_photographs_with_several_tags_are_ranked_by_the_product_of_probabilities(gallery):
    (first, p_first), (second, p_second) = gallery.tags(0)[:2]
    rows, matches = gallery.search(tags=[first, second])
    expected = {
        row: (tags := dict(gallery.tags(row)))[first] * tags[second]
        for row in range(24)
        if {first, second} <= dict(gallery.tags(row)).keys()
    }
    assert dict(zip(rows.tolist(), matches.tolist(), strict=True)) == pytest.approx(expected)
    assert (np.diff(matches) <= 0).all()
    assert expected[0] == pytest.approx(p_first * p_second)
    everything, _ = gallery.search(tags=[first, second], min_probability=0)
    assert len(everything) == 24
    assert everything[: len(rows)].tolist() == rows.tolist()


def test_words_are_found_in_tags_classes_and_paths(gallery):
    tag = gallery.tags(0)[0][0]
    row = gallery.search(tags=[tag])[0][0]
    assert row in gallery.search(words=tag[:3].upper())[0]
    predicted, _ = gallery.search(label="forest")
    assert set(predicted) <= set(gallery.search(words="forest")[0])
    number = gallery.name(3)[-6:-4]
    assert gallery.search(words=f"{gallery.name(3)[:5]} {number}")[0].tolist() == [3]
    assert gallery.search(words="est/")[0].tolist() == []  # Not at the beginning of a part.
    assert len(gallery.search(words=" ")[0]) == 24


def test_a_whole_word_is_preferred_to_a_longer_one():
    names = ("sea", "sea water", "seal", "deep sea")
    assert _having_word(names, "sea") == [0, 1, 3]
    assert _having_word(names, "wat") == [1]
    assert _having_word(names, "eep") == []


def test_counts_are_those_of_the_photographs(gallery):
    rows, _ = gallery.search(words="coast")
    counts = gallery.count_tags(rows)
    assert counts == sorted(counts, key=lambda each: -each[1])
    for tag, count in counts:
        assert count == sum(tag in dict(gallery.tags(row)) for row in rows)
    assert sum(count for _, count in gallery.count_classes(rows)) == len(rows)


def test_small_copies_are_those_of_the_photographs(gallery):
    for row in (0, 11, 23):
        assert gallery.picture(row).startswith(b"\xff\xd8\xff")
        assert gallery.picture(row).endswith(b"\xff\xd9")


def test_an_index_that_is_replaced_does_not_disturb_those_who_use_it(gallery, folder, fitted):
    before = [gallery.picture(row) for row in range(24)]
    os.replace(folder / "index", folder / "elsewhere")
    assert [gallery.picture(row) for row in range(24)] == before
    os.replace(folder / "elsewhere", folder / "index")


def test_an_index_of_another_model_is_refused_and_made_anew(folder, tmp_path):
    other = small_model("softmax").fitted_
    assert model_fingerprint(other) != model_fingerprint(small_model().fitted_)
    shares_CA = small_model().fitted_.class_tag_share_CA
    changed = replace(small_model().fitted_, class_tag_share_CA=shares_CA[::-1])
    assert model_fingerprint(changed) != model_fingerprint(small_model().fitted_)
    with pytest.raises(StorageError, match="another model"):
        Gallery.load(folder / "index", other)


def test_an_index_stays_valid_unless_probabilities_change(fitted):
    choices = fitted.choices
    same = replace(choices, unsure_below=0.9, tags=replace(choices.tags, threshold=0.9))
    assert model_fingerprint(replace(fitted, choices=same)) == model_fingerprint(fitted)
    for changed in (
        replace(choices, temperature=9.0),
        replace(choices, class_tag_weight=9.0),
        replace(choices, tags=replace(choices.tags, offset=9.0)),
    ):
        assert model_fingerprint(replace(fitted, choices=changed)) != model_fingerprint(fitted)


def read_everything(folder, fitted):
    gallery = Gallery.load(folder, fitted)
    return [gallery.picture(number) for number in range(24)]


FILES = ("index.json", "order-*.safetensors", "segment-*.safetensors", "segment-*.pictures")


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("damage", ["cut", "missing", "changed", "empty"])
def test_a_damaged_index_is_refused_with_a_sentence(folder, fitted, file, damage):
    (path,) = (folder / "index").glob(file)
    content = path.read_bytes()
    try:
        if damage == "missing":
            path.unlink()
        elif damage == "cut":
            path.write_bytes(content[: len(content) // 2])
        elif damage == "empty":
            path.write_bytes(b"")
        else:
            middle = len(content) // 2
            path.write_bytes(content[:middle] + b"\x01\x02" + content[middle + 2 :])
        with pytest.raises(StorageError, match="index"):
            read_everything(folder / "index", fitted)
    finally:
        path.write_bytes(content)


@pytest.mark.parametrize("change", [lambda a: a.astype(float), lambda a: a > 0, lambda a: a[None]])
def test_an_order_of_another_type_is_refused(tmp_path, folder, fitted, change):
    shutil.copytree(folder / "index", tmp_path / "index")
    (path,) = (tmp_path / "index").glob("order-*.safetensors")
    arrays, description = load_arrays(path)
    save_arrays(path, {"positions": change(arrays["positions"])}, description)
    with pytest.raises(StorageError, match="its positions must be a row of int64"):
        Gallery.load(tmp_path / "index", fitted)


def test_accents_and_case_do_not_matter(tmp_path, fitted):
    (tmp_path / "photos" / "Été à Nice").mkdir(parents=True)
    (tmp_path / "photos" / "Été à Nice" / "plage.jpg").write_bytes(photograph(0))
    (tmp_path / "photos" / "Zebra.jpg").write_bytes(photograph(1))
    gallery, _, _ = build_gallery(fitted, tmp_path / "photos", tmp_path / "index")
    assert gallery.search(words="ETE nice")[0].tolist() == [0]
    assert gallery.search(words="zébra")[0].tolist() == [1]
    assert _having_word(("forêt", "FOREST"), "foret") == [0]


def test_an_empty_index_is_refused(tmp_path, fitted):
    write_manifest(tmp_path, Manifest(model=model_fingerprint(fitted)))
    with pytest.raises(StorageError, match="run supdocnade index again"):
        Gallery.load(tmp_path, fitted)


def test_copies_and_near_duplicates_are_found(tmp_path, fitted):
    photos = tmp_path / "photos"
    photos.mkdir()
    for name, number in (("a", 0), ("b", 1), ("c", 0), ("d", 0), ("e", 2)):
        (photos / f"{name}.jpg").write_bytes(photograph(number))
    gallery, _, _ = build_gallery(fitted, photos, tmp_path / "index")
    assert gallery.count_copies() == 2
    assert gallery.near_duplicates(photograph(0, "PNG"), [0, 1, 2, 4]) == {0, 2}
    assert gallery.near_duplicates(photograph(0), []) == set()
    (photos / "c.jpg").unlink()
    assert build_gallery(fitted, photos, tmp_path / "index")[0].count_copies() == 1


def test_the_exact_search_does_not_need_inverted_files(gallery):
    topics_H = gallery.topics(7)
    assert gallery.nearest(topics_H, 5, exact=True) == gallery.nearest(topics_H, 5)

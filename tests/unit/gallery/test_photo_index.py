import os
import sqlite3

import numpy as np
import pytest
from tests.scene_model import small_model
from tests.serving import build_index, photograph

from supdocnade.errors import StorageError
from supdocnade.gallery.build import build_gallery
from supdocnade.gallery.photo_index import NAME, Gallery, _having_word, open_index, read_photographs
from supdocnade.serving.explore import near_duplicates


def test_the_nearest_are_the_nearest(gallery):
    topics_NH = gallery.topics_NH.astype(np.float64)
    found = gallery.nearest(gallery.topics_NH[7], 24)
    away_N = np.linalg.norm(topics_NH - topics_NH[7], axis=1)
    assert [row for row, _ in found] == np.argsort(away_N, kind="stable").tolist()
    assert found[0] == (7, 0.0)
    others = gallery.nearest(gallery.topics_NH[7], 100, but=7)
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
    number = gallery.names[3][-6:-4]
    assert gallery.search(words=f"{gallery.names[3][:5]} {number}")[0].tolist() == [3]
    assert gallery.search(words="est/")[0].tolist() == []  # Not at the beginning of a part.
    assert len(gallery.search(words=" ")[0]) == 24


def describe(gallery, number, *, taken="", camera="", rating=0, unfamiliar=False):
    """Give a photograph of a gallery other details."""
    gallery.taken_N[number], gallery.cameras[number] = taken.encode(), camera
    gallery.rating_N[number], gallery.unfamiliar_N[number] = rating, unfamiliar


@pytest.fixture
def described(folder, fitted):
    gallery = Gallery.load(folder / "index", fitted)
    describe(gallery, 2, taken="2023-12-31T23:59:59", camera="Canon EOS 80D", rating=5)
    describe(gallery, 4, taken="2024-01-01T00:00:00", camera="Canon EOS 80D", rating=3)
    describe(gallery, 9, taken="2024-06-01T12:00:00", camera="X100V", unfamiliar=True)
    return gallery


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"since": "2024-01-01"}, [4, 9]),
        ({"until": "2024-01-01"}, [2, 4]),
        ({"since": "2024-01-01", "until": "2024-01-01"}, [4]),
        ({"since": "2023-01-01", "order": "newest"}, [9, 4, 2]),
        ({"since": "2023-01-01", "order": "oldest"}, [2, 4, 9]),
        ({"camera": "Canon EOS 80D", "order": "name"}, [2, 4]),
        ({"camera": "nothing"}, []),
        ({"min_rating": 4}, [2]),
        ({"state": "unfamiliar"}, [9]),
    ],
)
def test_photographs_are_found_by_date_camera_and_rating(described, asked, expected):
    assert described.search(**asked)[0].tolist() == expected


def test_photographs_without_a_time_are_last(described):
    others = [number for number in range(24) if number not in (2, 4, 9)]
    assert described.search(order="newest")[0].tolist() == [9, 4, 2, *others]
    assert described.search(order="oldest")[0].tolist() == [2, 4, 9, *others]
    assert described.count_cameras(np.arange(24)) == [("Canon EOS 80D", 2), ("X100V", 1)]


def test_photographs_are_found_by_the_state_of_their_review(described, fitted):
    path = described.paths[9]
    described._unsure_below = described.label(4)[1] + 1e-9
    unsure = [n for n in range(24) if described.label(n)[1] < described._unsure_below]
    assert sorted(described.search(state="unsure")[0]) == unsure
    assert 4 in unsure
    assert described.is_unsure(4)
    described.correct(path, None, [])
    assert described.given(9) == (None, [], {})
    assert described.search(state="reviewed")[0].tolist() == described.reviewed == [9]
    assert described.search(state="unfamiliar")[0].tolist() == []
    assert 9 not in described.search(state="unreviewed", order="name")[0]
    described.correct(path, None, None)
    assert described.reviewed == []


def test_single_tags_are_judged_and_the_others_stay_predictions(described):
    path, before = described.paths[3], described.tags(3)
    wrong, *others = [tag for tag, _ in before]
    described.correct(path, None, None, {wrong.upper(): False, "shipwreck": True})
    assert [tag for tag, _ in described.tags(3)] == ["shipwreck", *others]
    assert dict(described.tags(3))[others[0]] == dict(before)[others[0]]
    assert 3 not in described.search(tags=[wrong])[0]
    assert described.search(words="shipwreck")[0].tolist() == [3]
    assert described.reviewed == []
    assert described.corrected == {3: (None, None, {wrong: False, "shipwreck": True})}
    described.correct(path, None, None)
    assert described.tags(3) == before


def test_a_whole_word_is_preferred_to_a_longer_one():
    names = ("sea", "sea water", "seal", "deep sea")
    assert _having_word(names, "sea") == [0, 1, 3]
    assert _having_word(names, "wat") == [1]
    assert _having_word(names, "eep") == []


def test_small_copies_are_those_of_the_photographs(gallery):
    for row in (0, 11, 23):
        assert gallery.picture(row).startswith(b"\xff\xd8\xff")
        assert gallery.picture(row).endswith(b"\xff\xd9")


def test_an_index_that_is_replaced_does_not_disturb_those_who_use_it(gallery, folder, fitted):
    before = [gallery.picture(row) for row in range(24)]
    os.replace(folder / "index", folder / "elsewhere")
    assert [gallery.picture(row) for row in range(24)] == before
    os.replace(folder / "elsewhere", folder / "index")


def read_everything(folder, fitted):
    gallery = Gallery.load(folder, fitted)
    return [(gallery.paths[number], gallery.picture(number)) for number in range(24)]


def test_a_reader_sees_the_index_as_it_was_when_it_was_opened(tmp_path, fitted):
    _, photos = build_index(tmp_path)
    opened = Gallery.load(tmp_path / "index", fitted)
    before = [opened.picture(number) for number in range(24)]
    for path in sorted(photos.glob("*/*.jpg"))[:20]:
        path.unlink()
    (photos / "new.jpg").write_bytes(photograph(3))
    build_gallery(fitted, photos, tmp_path / "index")
    assert [opened.picture(number) for number in range(24)] == before
    build_gallery(fitted, photos, tmp_path / "index", start_over=True)
    assert [opened.picture(number) for number in range(24)] == before
    assert len(Gallery.load(tmp_path / "index", fitted)) == 5


@pytest.mark.parametrize("damage", ["cut", "missing", "empty", "text", "journal"])
def test_a_damaged_index_is_refused_with_a_sentence(tmp_path, fitted, damage):
    build_index(tmp_path)
    path = tmp_path / "index" / NAME
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "journal":
        path.with_name(f"{NAME}-journal").write_bytes(b"x" * 600)
    else:
        changed = {"cut": content[: len(content) // 2], "empty": b"", "text": b"x" * 5000}
        path.write_bytes(changed[damage])
    with pytest.raises(StorageError, match="index"):
        read_everything(tmp_path / "index", fitted)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE photographs SET topics = x'00' WHERE id = 3", "multiple of element size"),
        ("UPDATE photographs SET topics = zeroblob(length(topics) + 4) WHERE id = 3", "reshape"),
        ("UPDATE photographs SET topics = x'' WHERE id = 3", "reshape"),
        ("UPDATE photographs SET topics = 'text' WHERE id = 3", "wrong type"),
        ("UPDATE photographs SET probabilities = NULL WHERE id = 3", "wrong type"),
        ("UPDATE photographs SET time = 'now' WHERE id = 3", "wrong type"),
        ("UPDATE photographs SET path = x'ff' WHERE id = 3", "invalid start byte"),
        ("UPDATE photographs SET taken = 7 WHERE id = 3", "wrong type"),
        ("UPDATE photographs SET camera = x'ff' WHERE id = 3", "invalid start byte"),
        ("UPDATE photographs SET words = zeroblob(9000000) WHERE id < 5", "too big"),
        ("UPDATE pictures SET picture = x'00' WHERE id = 3", "thumbnail"),
        ("UPDATE pictures SET picture = NULL WHERE id = 3", "startswith"),
        ("DELETE FROM pictures WHERE id = 3", "not subscriptable"),
        ("DELETE FROM about", "another model"),
        ("INSERT INTO about SELECT * FROM about", "another model"),
        ("DROP INDEX places", "its tables"),
        ("CREATE TRIGGER a AFTER INSERT ON about BEGIN SELECT 1; END", "its tables"),
        ("ALTER TABLE pictures RENAME TO old", "its tables"),
        ("PRAGMA user_version = 3", "has format 3, this version reads 6; supdocnade index --rep"),
    ],
)
def test_forged_values_are_refused(tmp_path, fitted, statement, expected):
    build_index(tmp_path)
    change(tmp_path / "index", statement)
    with pytest.raises(StorageError, match=expected) as error:
        read_everything(tmp_path / "index", fitted)
    if expected != "another model":
        assert "; supdocnade index --replace makes it again." in str(error.value)


def test_no_more_is_read_than_the_file_can_hold(folder, fitted, tmp_path):
    """A forged file may repeat its pages."""
    connection = open_index(folder / "index", fitted.fingerprint())
    with pytest.raises(ValueError, match="more than it can hold"):
        next(read_photographs(connection, tmp_path, "path"))
    connection.close()


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("column", ["topics", "probabilities"])
def test_features_and_probabilities_are_finite(tmp_path, fitted, column, place):
    build_index(tmp_path)
    with sqlite3.connect(tmp_path / "index" / NAME) as connection:
        query = f"SELECT {column} FROM photographs WHERE id = 3"
        values = np.frombuffer(connection.execute(query).fetchone()[0], "<f4").copy()
        values[place] = np.nan
        query = f"UPDATE photographs SET {column} = ? WHERE id = 3"
        connection.execute(query, (values.tobytes(),))
    connection.close()
    with pytest.raises(StorageError, match="must be finite"):
        Gallery.load(tmp_path / "index", fitted)


def change(index, statement):
    connection = sqlite3.connect(index / NAME, isolation_level=None)
    connection.execute(statement)
    connection.close()


def test_a_view_is_never_read(tmp_path, fitted):
    """It could compute for ever."""
    build_index(tmp_path)
    change(tmp_path / "index", "DROP TABLE about")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, i FROM n"
    change(tmp_path / "index", f"CREATE VIEW about (model, other) AS {endless}")
    with pytest.raises(StorageError, match="its tables are not those of an index"):
        Gallery.load(tmp_path / "index", fitted)


def test_an_index_of_another_model_is_refused(folder):
    with pytest.raises(StorageError, match="another model"):
        Gallery.load(folder / "index", small_model("sigmoid").fitted_)


def test_accents_and_case_do_not_matter(tmp_path, fitted):
    (tmp_path / "photos" / "Été à Nice").mkdir(parents=True)
    (tmp_path / "photos" / "Été à Nice" / "plage.jpg").write_bytes(photograph(0))
    (tmp_path / "photos" / "Zebra.jpg").write_bytes(photograph(1))
    gallery, _, _ = build_gallery(fitted, tmp_path / "photos", tmp_path / "index")
    assert gallery.search(words="ETE nice")[0].tolist() == [0]
    assert gallery.search(words="zébra")[0].tolist() == [1]
    assert _having_word(("forêt", "FOREST"), "foret") == [0]


def test_near_duplicates_are_found(tmp_path, fitted):
    photos = tmp_path / "photos"
    photos.mkdir()
    for name, number in (("a", 0), ("b", 1), ("c", 0), ("d", 0), ("e", 2)):
        (photos / f"{name}.jpg").write_bytes(photograph(number))
    gallery, _, _ = build_gallery(fitted, photos, tmp_path / "index")
    assert near_duplicates(gallery, photograph(0, "PNG"), [0, 1, 2, 4]) == {0, 2}
    assert near_duplicates(gallery, photograph(0), []) == set()

import pytest

from supdocnade.errors import InvalidArgument
from supdocnade.folders.tags import (
    AnnotationVocabulary,
    find_similar_names,
    frequent_spellings,
    normalize_tag,
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("Sea", "sea"),
        ("person_walking", "person walking"),
        (" person \t walking\n", "person walking"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("\ufb01re", "fire"),  # A ligature.
        ("cafe\u0301", "caf\u00e9"),  # A combining accent.
        ("sea|sky_blue", "sea sky blue"),  # In files a bar separates tags.
        ("__", ""),
    ],
)
def test_normalize_tag(given, expected):
    assert normalize_tag(given) == expected
    assert normalize_tag(expected) == expected


def test_the_most_frequent_spelling_of_a_tag():
    tags = [
        ["Stra\u00dfe", "STRASSE", "STRASSE"],
        ["Stra\u00dfe", "New York", "__", ""],
        ["strasse", "new_york", "cafe\u0301"],
        ["New \tYork ", "caf\u00e9", "CAF\u00c9"],
        ["zoo"],
        ["Zoo"],  # As frequent, and before it in sorted order.
        None,
        [],
    ]
    assert frequent_spellings(tags) == {
        "strasse": "Stra\u00dfe",
        "new york": "New York",
        "caf\u00e9": "caf\u00e9",
        "zoo": "Zoo",
    }
    assert frequent_spellings([["nature|Sky"]]) == {"nature sky": "nature Sky"}


def test_min_count():
    tags = [["sea", "Sea", "sea"], ["sea", "sand"], ["sand", "rare"], None, []]
    assert AnnotationVocabulary.of(tags).names == ("rare", "sand", "sea")
    assert AnnotationVocabulary.of(tags, min_count=2).names == ("sand", "sea")
    assert AnnotationVocabulary.of(tags, min_count=3).names == ()


def test_tags_have_the_usual_spelling():
    vocabulary = AnnotationVocabulary.of([["Straße", "zoo"], ["STRASSE"], ["Straße", "Ähre"]])
    assert vocabulary.names == ("Straße", "zoo", "Ähre")
    assert "strasse" in vocabulary
    assert vocabulary.encode([["strasse"], ["ähre", "ZOO"]]).toarray().tolist() == [
        [1, 0, 0],
        [0, 1, 1],
    ]


def test_tags_outside_the_vocabulary_are_left_out():
    vocabulary = AnnotationVocabulary(("person walking", "sand", "sea"))
    encoded = vocabulary.encode(
        [["Sea", "sea", "person_walking"], [], None, ["ship", "Ship", "sea"]]
    )
    assert encoded.toarray().tolist() == [[1, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 1]]


def test_invalid_tags_are_errors():
    with pytest.raises(InvalidArgument, match="must be a list of strings, got 'sea'"):
        AnnotationVocabulary.of(["sea"])
    with pytest.raises(InvalidArgument, match="must be a list of strings, got ''"):
        AnnotationVocabulary(()).encode([""])
    with pytest.raises(InvalidArgument, match="must be a list of strings, got nan"):
        AnnotationVocabulary(()).encode([float("nan")])
    with pytest.raises(InvalidArgument, match="a tag must be a string, got 3"):
        AnnotationVocabulary.of([[3]])
    for names in (("b", "b"), ("Sea", "sea"), ("",), ("a b", "a_b")):
        with pytest.raises(InvalidArgument, match="names must be different tags"):
            AnnotationVocabulary(names)
    with pytest.raises(InvalidArgument, match="min_count"):
        AnnotationVocabulary.of([["a"]], min_count=0)


@pytest.mark.parametrize(
    ("one", "other", "similar"),
    [
        ("building", "buiding", True),
        ("person standing", "person standig", True),
        ("footpath", "footpaht", True),
        ("seashore", "sea shore", True),
        ("grass", "gross", True),
        ("Coast", "coast", True),
        ("Sea", "sea", True),
        ("sea", "sky", False),
        ("path", "bath", False),
        ("building", "buidng", False),
        ("building", "gnidliub", False),
    ],
)
def test_names_that_differ_by_a_letter_are_similar(one, other, similar):
    counts = {one: 9, other: 2, "something else": 9}
    assert find_similar_names(counts) == [(one, other)] * similar


def test_two_frequent_words_are_not_misspelt():
    words = ("grass", "glass", "mountain", "fountain", "plane", "plain", "beach", "bench")
    assert find_similar_names(dict.fromkeys(words, 3)) == []
    assert find_similar_names({"forest": 50, "foerst": 20}) == [("forest", "foerst")]

"""Normalised tags, and the vocabulary of annotation words."""

import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from scipy import sparse

from supdocnade.checks import check_count
from supdocnade.errors import InvalidArgument

Tags = Sequence[str] | None
"""Tags of an image; None if they are unknown."""


def normalize_tag(tag: str) -> str:
    """Return a tag in lower case, with single spaces for whitespace, underscores and bars.

    A tag of several words stays one tag. Bars separate tags in files, so a tag cannot have one.

    >>> normalize_tag("  Person_walking ") == normalize_tag("person  Walking")
    True
    """
    if not isinstance(tag, str):
        raise InvalidArgument(f"a tag must be a string, got {tag!r}.")
    return re.sub(r"[\s_|]+", " ", unicodedata.normalize("NFKC", tag)).strip().casefold()


@dataclass(frozen=True)
class AnnotationVocabulary:
    """Vocabulary of tags; tag number a is annotation word a.

    Tags are compared after normalisation; names are spelled as in most images.
    """

    names: tuple[str, ...]
    _numbers: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        numbers = {normalize_tag(name): number for number, name in enumerate(self.names)}
        if len(numbers) != len(self.names) or "" in numbers:
            raise InvalidArgument("names must be different tags.")
        object.__setattr__(self, "_numbers", numbers)

    @classmethod
    def of(cls, tags: Iterable[Tags], *, min_count: int = 1) -> "AnnotationVocabulary":
        """Return the vocabulary of the tags of at least `min_count` images (3 in the paper).

        >>> AnnotationVocabulary.of([["Sea", "sea"], ["sea", "sand"], None], min_count=2).names
        ('sea',)
        """
        check_count("min_count", min_count, least=1)
        counts = count_tags(tags)
        names = (name for name, count in counts.items() if count >= min_count)
        return cls(tuple(sorted(names, key=normalize_tag)))

    def __len__(self) -> int:
        """Return A, the number of annotation words."""
        return len(self.names)

    def __contains__(self, tag: str) -> bool:
        return normalize_tag(tag) in self._numbers

    def encode(self, tags: Sequence[Tags]) -> sparse.csr_array:
        """Return 1 for the tags that images have, (images, vocabulary); others are left out."""
        rows, columns = array("q"), array("q")
        for row, some in enumerate(tags):
            found = sorted(_normalize_tags(some) & self._numbers.keys())
            rows.extend([row] * len(found))
            columns.extend(self._numbers[name] for name in found)
        ones = np.ones(len(rows), np.int64)
        return sparse.csr_array((ones, (rows, columns)), shape=(len(tags), len(self)))


def count_tags(tags: Iterable[Tags]) -> Counter[str]:
    """Return the number of images of each tag, in the spelling that most images have."""
    listed = list(tags)
    counts: Counter[str] = Counter()
    for some in listed:
        counts.update(_normalize_tags(some))
    spellings = frequent_spellings(listed)
    return Counter({spellings[name]: count for name, count in counts.items()})


def spell_tag(tag: str, names: Iterable[str]) -> str:
    """Return a tag as a model spells it; one that it does not know stays as it is.

    >>> spell_tag("new_york", ["sea", "New York"]), spell_tag("Zoo", ["sea"])
    ('New York', 'Zoo')
    """
    plain = normalize_tag(tag)
    return next((name for name in names if normalize_tag(name) == plain), tag)


def frequent_spellings(tags: Iterable[Tags]) -> dict[str, str]:
    """Return the spelling of each normalised tag that most images have.

    Of equally frequent spellings it is the first in sorted order. Spellings that differ only in
    whitespace, bars or Unicode composition are one spelling.

    >>> frequent_spellings([["New York"], ["NEW YORK", "sea"], ["New  York"], None])
    {'new york': 'New York', 'sea': 'sea'}
    """
    counts: Counter[str] = Counter()
    for some in tags:
        counts.update({_clean_spelling(tag) for tag in some or ()})
    spellings: dict[str, str] = {}
    for spelling in sorted(counts, key=lambda each: (-counts[each], each)):
        if name := normalize_tag(spelling):
            spellings.setdefault(name, spelling)
    return spellings


def exclude_tags(tags: Iterable[str], existing: Iterable[str] = ()) -> list[str]:
    """Return tags without repeats and without existing ones, both compared after normalisation.

    >>> exclude_tags(["Sea", "sea", "Sky"], existing=["SKY"])
    ['Sea']
    """
    known = {normalize_tag(tag) for tag in existing}
    remaining = []
    for tag in tags:
        if (name := normalize_tag(tag)) not in known:
            known.add(name)
            remaining.append(tag)
    return remaining


MIN_COMPARED = 5
"""Shorter names are not compared: too many of them differ in one letter."""

MAX_MISSPELT = 2
"""Photographs of a misspelling with a wrong letter: of grass and glass there are more."""


def find_similar_names(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return pairs of names that may be misspellings of each other, the more frequent one first.

    They are equal after normalisation, or after it differ by one letter: missing, additional,
    wrong, or exchanged with the next. Names shorter than `MIN_COMPARED` are not compared, since
    many of them differ by one letter.

    Parameters
    ----------
    counts : number of photographs of each name.

    >>> find_similar_names({"building": 9, "buiding": 4, "sky": 3, "ski": 2, "wilding": 1})
    [('building', 'buiding')]
    """
    # Names that differ so have a string in common among themselves and themselves less one letter.
    sharing: dict[str, list[str]] = {}
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        plain = normalize_tag(name)
        if len(plain) >= MIN_COMPARED:
            for part in {plain, *(plain[:i] + plain[i + 1 :] for i in range(len(plain)))}:
                sharing.setdefault(part, []).append(name)
        else:
            sharing.setdefault(plain, []).append(name)
    pairs = (pair for together in sharing.values() for pair in combinations(together, 2))
    return [pair for pair in dict.fromkeys(pairs) if not _are_words(*pair, counts[pair[1]])]


def _are_words(one: str, other: str, count: int) -> bool:
    """Return whether the rarer of two similar names is too frequent to have a wrong letter."""
    plain, rarer = normalize_tag(one), normalize_tag(other)
    return count > MAX_MISSPELT and len(plain) == len(rarer) and sorted(plain) != sorted(rarer)


def _clean_spelling(tag: str) -> str:
    """Return a tag in composed characters, with single spaces for whitespace and bars."""
    return re.sub(r"[\s|]+", " ", unicodedata.normalize("NFC", tag)).strip()


def _normalize_tags(tags: Tags) -> set[str]:
    """Return the distinct normalised tags of an image without empty ones."""
    if tags is None:
        return set()
    if isinstance(tags, str | float):
        raise InvalidArgument(f"the tags of an image must be a list of strings, got {tags!r}.")
    return {name for name in map(normalize_tag, tags) if name}

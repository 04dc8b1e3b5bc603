"""Annotation words: tags brought to one spelling, a vocabulary of the frequent ones, and counts."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.checks import check_count
from supdocnade.errors import InvalidArgument

Tags = Sequence[str] | None
"""The tags of an image; None: they are not known."""


def normalize_tag(tag: str) -> str:
    """Return a tag in its one spelling: lower case, single spaces for spaces and underscores.

    A tag of several words stays one tag. A bar, which separates tags in files, is a space, too.

    >>> normalize_tag("  Person_walking ") == normalize_tag("person  Walking")
    True
    """
    if not isinstance(tag, str):
        raise InvalidArgument(f"a tag must be a string, got {tag!r}.")
    return re.sub(r"[\s_|]+", " ", unicodedata.normalize("NFKC", tag)).strip().casefold()


class EncodedTags(NamedTuple):
    """The tags of images as the estimators take them."""

    annotations: sparse.csr_array
    """(images, vocabulary), 1 where an image has a tag."""
    known: NDArray[np.bool_]
    """(images,) false where the tags are not known: `annotation_mask`."""
    unknown_tags: Counter[str]
    """Tags that are not in the vocabulary, with the number of images that have them."""


@dataclass(frozen=True)
class AnnotationVocabulary:
    """The tags that a model knows; tag number a is annotation word a."""

    names: tuple[str, ...]
    _numbers: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        numbers = {name: number for number, name in enumerate(self.names)}
        if len(numbers) != len(self.names) or any(n != normalize_tag(n) for n in numbers):
            raise InvalidArgument("names must be different tags in their one spelling.")
        object.__setattr__(self, "_numbers", numbers)

    @classmethod
    def of(cls, tags: Iterable[Tags], *, min_count: int = 1) -> "AnnotationVocabulary":
        """Return the vocabulary of the tags that at least `min_count` images have (paper: 3).

        >>> AnnotationVocabulary.of([["Sea", "sea"], ["sea", "sand"], None], min_count=2).names
        ('sea',)
        """
        check_count("min_count", min_count, least=1)
        counts: Counter[str] = Counter()
        for some in tags:
            counts.update(_spelled(some))
        return cls(tuple(sorted(name for name, count in counts.items() if count >= min_count)))

    def __len__(self) -> int:
        """A, the number of annotation words."""
        return len(self.names)

    def encode(self, tags: Sequence[Tags]) -> EncodedTags:
        """Return the tags of images as a matrix; repeated tags count once."""
        rows, columns, unknown = [], [], Counter[str]()
        for row, some in enumerate(tags):
            for name in sorted(_spelled(some)):
                if name in self._numbers:
                    rows.append(row)
                    columns.append(self._numbers[name])
                else:
                    unknown[name] += 1
        ones = np.ones(len(rows), np.int64)
        matrix = sparse.csr_array((ones, (rows, columns)), shape=(len(tags), len(self)))
        known = np.array([some is not None for some in tags], np.bool_)
        return EncodedTags(matrix, known, unknown)


def _spelled(tags: Tags) -> set[str]:
    """Return the different tags of an image; empty ones are none."""
    if tags is None:
        return set()
    if isinstance(tags, str | float):
        raise InvalidArgument(f"the tags of an image must be a list of strings, got {tags!r}.")
    return {name for name in map(normalize_tag, tags) if name}

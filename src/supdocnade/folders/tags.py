"""Normalised tags, and the vocabulary of annotation words."""

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


class EncodedTags(NamedTuple):
    """Tags of images as input of the estimators."""

    annotations: sparse.csr_array
    """(images, vocabulary), 1 if the image has the tag."""
    known: NDArray[np.bool_]
    """(images,) False if the tags are unknown; the `annotation_mask` of `fit`."""
    unknown_tags: Counter[str]
    """Number of images for each tag outside the vocabulary."""


@dataclass(frozen=True)
class AnnotationVocabulary:
    """Vocabulary of tags; tag number a is annotation word a."""

    names: tuple[str, ...]
    _numbers: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        numbers = {name: number for number, name in enumerate(self.names)}
        if len(numbers) != len(self.names) or any(n != normalize_tag(n) for n in numbers):
            raise InvalidArgument("names must be different normalised tags.")
        object.__setattr__(self, "_numbers", numbers)

    @classmethod
    def of(cls, tags: Iterable[Tags], *, min_count: int = 1) -> "AnnotationVocabulary":
        """Return the vocabulary of the tags of at least `min_count` images (3 in the paper).

        >>> AnnotationVocabulary.of([["Sea", "sea"], ["sea", "sand"], None], min_count=2).names
        ('sea',)
        """
        check_count("min_count", min_count, least=1)
        counts: Counter[str] = Counter()
        for some in tags:
            counts.update(_normalize_tags(some))
        return cls(tuple(sorted(name for name, count in counts.items() if count >= min_count)))

    def __len__(self) -> int:
        """Number A of annotation words."""
        return len(self.names)

    def encode(self, tags: Sequence[Tags]) -> EncodedTags:
        """Return the tags of images as a binary matrix."""
        rows, columns, unknown = [], [], Counter[str]()
        for row, some in enumerate(tags):
            for name in sorted(_normalize_tags(some)):
                if name in self._numbers:
                    rows.append(row)
                    columns.append(self._numbers[name])
                else:
                    unknown[name] += 1
        ones = np.ones(len(rows), np.int64)
        matrix = sparse.csr_array((ones, (rows, columns)), shape=(len(tags), len(self)))
        known = np.array([some is not None for some in tags], np.bool_)
        return EncodedTags(matrix, known, unknown)


def _normalize_tags(tags: Tags) -> set[str]:
    """Return the distinct normalised tags of an image without empty ones."""
    if tags is None:
        return set()
    if isinstance(tags, str | float):
        raise InvalidArgument(f"the tags of an image must be a list of strings, got {tags!r}.")
    return {name for name in map(normalize_tag, tags) if name}

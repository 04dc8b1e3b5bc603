"""The paper's data sets, as the experiments take them."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.checks import check_choice
from supdocnade.errors import StorageError
from supdocnade.folders.photo_folder import ImageRecord
from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.images.decode import read_image_file
from supdocnade.paper.published_scenes import read_labelme, read_scene15, read_uiuc_sports
from supdocnade.progress import ProgressCallback, no_progress
from supdocnade.storage import write_atomically
from supdocnade.visual_words.cache import content_key

DIGITS = 16
"""Of a content digest that are kept: among ten thousand files no two are ever likely to agree."""

MIN_TAG_COUNT = 3
"""Annotations on fewer photographs of the whole data set are removed, as in the paper."""


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """What the paper does with a data set."""

    name: str
    title: str
    folder: str
    """Where it lies among the others."""
    read: Callable[[Path, str | None], list[ImageRecord]]
    tag_files: Mapping[str, str]
    """Name of a set of tags and the file that has it; the first is the one for classification."""
    train_size: int | float
    test_size: int | None
    pool_size: int
    """Photographs of every class in the development pool."""
    max_side: int | None
    """Longest side of the photographs in pixels; None: they stay."""
    shown: tuple[str, ...] = ()
    """Classes whose words the page shows."""


DATA_SETS: dict[str, DataSet] = {
    "scene15": DataSet(
        name="scene15",
        title="Scene15",
        folder="scene15",
        read=lambda folder, tags: read_scene15(folder),
        tag_files={},
        train_size=100,
        test_size=None,
        pool_size=100,
        max_side=300,
    ),
    "labelme": DataSet(
        name="labelme",
        title="LabelMe",
        folder="labelme",
        read=read_labelme,
        tag_files={"tags_free": "tags_free.tsv", "tags_33": "tags_33.tsv"},
        train_size=100,
        test_size=100,
        pool_size=60,
        max_side=None,
        shown=("street", "forest", "highway", "coast"),
    ),
    "uiuc": DataSet(
        name="uiuc",
        title="UIUC-Sports",
        folder="uiuc_sports",
        read=read_uiuc_sports,
        tag_files={"annotations": "uiuc-sports-annotations.txt"},
        train_size=0.5,
        test_size=None,
        pool_size=0,
        max_side=400,
        shown=("sailing", "rowing", "polo", "badminton"),
    ),
}


class Annotations(NamedTuple):
    """The tags of all photographs as counts."""

    annotations: sparse.csr_array
    """(photographs, tags), 1 where a photograph has a tag."""
    known: NDArray[np.bool_]
    """(photographs,) false where the tags are not known."""
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class PhotoSet:
    """The photographs of a data set and what is known of them, as they travel between machines."""

    dataset: str
    names: tuple[str, ...]
    """`class/file`, for people."""
    digests: tuple[str, ...]
    labels: tuple[str, ...]
    tags: dict[str, tuple[tuple[str, ...] | None, ...]]
    """By the name of the set of tags: those of every photograph, None where not known."""
    paths: tuple[Path, ...] = ()
    """Of the files, on the machine that has them."""

    def __len__(self) -> int:
        """The number of photographs."""
        return len(self.names)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes, sorted."""
        return tuple(sorted(set(self.labels)))

    def label_numbers(self) -> NDArray[np.int64]:
        """Return the number of every photograph's class."""
        found: NDArray[np.int64] = np.searchsorted(np.array(self.classes), np.array(self.labels))
        return found

    def annotations(self, tags: str) -> "Annotations":
        """Return one set of tags as counts, rare tags removed."""
        vocabulary = AnnotationVocabulary.of(self.tags[tags], min_count=MIN_TAG_COUNT)
        encoded = vocabulary.encode(self.tags[tags])
        return Annotations(encoded.annotations, encoded.known, vocabulary.names)

    def take(self, chosen: Sequence[int] | NDArray[np.integer]) -> "PhotoSet":
        """Return some of the photographs."""
        return replace(
            self,
            names=tuple(self.names[i] for i in chosen),
            digests=tuple(self.digests[i] for i in chosen),
            labels=tuple(self.labels[i] for i in chosen),
            tags={name: tuple(some[i] for i in chosen) for name, some in self.tags.items()},
            paths=tuple(self.paths[i] for i in chosen) if self.paths else (),
        )

    def save(self, path: Path) -> None:
        """Write everything but the photographs themselves."""
        known = {
            "dataset": self.dataset,
            "names": self.names,
            "digests": self.digests,
            "labels": self.labels,
            "tags": self.tags,
        }
        write_atomically(path, json.dumps(known, indent=0).encode())

    @classmethod
    def load(cls, path: Path) -> "PhotoSet":
        """Return what `save` wrote; the photographs themselves are elsewhere."""
        try:
            known = json.loads(path.read_text())
            return cls(
                dataset=known["dataset"],
                names=tuple(known["names"]),
                digests=tuple(known["digests"]),
                labels=tuple(known["labels"]),
                tags={
                    name: tuple(None if each is None else tuple(each) for each in some)
                    for name, some in known["tags"].items()
                },
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StorageError(f"{path} must list photographs, it cannot be read: {error}.") from (
                error
            )


def data_set(name: str) -> DataSet:
    """Return a data set by its name."""
    check_choice("dataset", name, tuple(DATA_SETS))
    return DATA_SETS[name]


def read_photo_set(
    name: str, folder: str | os.PathLike[str], progress: ProgressCallback = no_progress
) -> PhotoSet:
    """Return the photographs of a data set.

    Parameters
    ----------
    name : one of DATA_SETS.
    folder : that holds them, or that holds the folder that does.
    """
    spec, root = data_set(name), Path(folder)
    if (root / spec.folder).is_dir():
        root = root / spec.folder
    first, *others = spec.tag_files.items() or [("", "")]
    records = spec.read(root, first[1] or None)
    tags = {first[0]: tuple(record.tags for record in records)} if first[0] else {}
    for tag_name, file in others:
        tags[tag_name] = tuple(record.tags for record in spec.read(root, file))
    digests = []
    for number, record in enumerate(records):
        digests.append((content_key(read_image_file(record.path)) or "")[:DIGITS])
        progress("looking for copies", number + 1, len(records))
    return PhotoSet(
        dataset=name,
        names=tuple(f"{record.label}/{record.path.name}" for record in records),
        digests=tuple(digests),
        labels=tuple(str(record.label) for record in records),
        tags=tags,
        paths=tuple(record.path for record in records),
    )

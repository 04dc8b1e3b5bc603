"""The paper's three data sets of photographs: published files, their readers, and their use.

A reader expects one folder per class, below any folders that an archive puts around them, and
returns records sorted by class and file name. A missing class is an error. Photographs outside the
classes are skipped with a warning. A class size other than published is a warning too, since copies
of these data sets with a few photographs more or fewer are common.

Scene15's eight outdoor classes are grey copies of LabelMe's photographs: never train on one and
test on the other.
"""

import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.checks import check_choice
from supdocnade.errors import StorageError
from supdocnade.folders.metadata import csv_rows, distinct_tags, parse_tags
from supdocnade.folders.photo_folder import ImageRecord, list_folder
from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.images.decode import read_image_file
from supdocnade.images.reading import content_key
from supdocnade.runs import ProgressCallback, no_progress
from supdocnade.storage import write_atomically
from supdocnade.text import line_error, read_lines, read_text

Sizes = Mapping[str, tuple[int, ...]]
"""The classes of a data set, each with its published numbers of photographs."""

SCENE15: Sizes = {
    "Bedroom": (216,),
    "Coast": (360,),
    "Forest": (328,),
    "Highway": (260,),
    "Industrial": (311,),
    "InsideCity": (308,),
    "Kitchen": (210,),
    "LivingRoom": (289,),
    "Mountain": (374,),
    "Office": (215,),
    "OpenCountry": (410,),
    "Store": (315,),
    "Street": (292,),
    "Suburb": (241,),
    "TallBuilding": (356,),
}
"""4,485 photographs (Lazebnik, Schmid and Ponce 2006)."""

LABELME: Sizes = {
    "coast": (200, 360),
    "forest": (200, 328),
    "highway": (200, 260),
    "insidecity": (200, 308),
    "mountain": (200, 374),
    "opencountry": (200, 410),
    "street": (200, 292),
    "tallbuilding": (200, 356),
}
"""200 per class as in the paper, or all 2,688 (Oliva and Torralba 2001)."""

UIUC_SPORTS: Sizes = {
    "badminton": (200, 313, 314),
    "bocce": (137,),
    "croquet": (236, 329, 330),
    "polo": (182, 183),
    "rockclimbing": (194,),
    "rowing": (250, 255),
    "sailing": (190,),
    "snowboarding": (190,),
}
"""1,579 photographs on its page (Li and Fei-Fei 2007), 1,792 in the paper and the annotations."""

SPORTS_ANNOTATIONS = "uiuc-sports-annotations.txt"
SPORTS_NAMES = "uiuc-sports-info.txt"

Labeller = Callable[[PurePosixPath], str | None]
"""Maps the path of a photograph to its class, or to None if it is outside the classes."""


def read_scene15(root: str | os.PathLike[str]) -> list[ImageRecord]:
    """Return the photographs of Scene15: 4,485 in 15 classes, without tags.

    Folders may be named as in `SCENE15` in upper or lower case, with the source in front
    (`MITcoast`, `CALsuburb`, `PARoffice`) as by the authors, or `00` to `14` as on figshare. A
    numbered folder is identified by its number of photographs.
    """
    top, paths = _find_photographs(
        Path(root), lambda path: "" if _is_numbered(path) else _scene(path)
    )
    numbers = _numbered_scenes(top, paths)
    return _records(
        top, "Scene15", SCENE15, paths, lambda path: numbers.get(path.parts[0]) or _scene(path)
    )


def read_labelme(
    root: str | os.PathLike[str], tags: str | None = "tags_free.tsv"
) -> list[ImageRecord]:
    """Return the photographs of the eight outdoor classes of LabelMe.

    They are in one folder per class (`coast/coast_bea1.jpg`) or, as in the published archive, in
    one folder (`coast_bea1.jpg`), where the names give the class.

    Parameters
    ----------
    tags : name of the tag file in `root` (`tags_free.tsv` or `tags_33.tsv`), which has a header and
        then one line `class/file<TAB>tag|tag` per photograph; None if the tags are not known.
    """
    root = Path(root)
    top, paths = _find_photographs(root, _outdoor)
    records = _records(top, "LabelMe", LABELME, paths, _outdoor)
    if tags is None:
        return records
    file = _file_in(root, tags)
    names = [f"{record.label}/{record.path.name}" for record in records]
    found: dict[str, tuple[str, ...] | None] = dict.fromkeys(names)
    for line, row in csv_rows(str(file), read_text(file), "file"):
        if isinstance(row, StorageError):
            raise row
        if row["file"] not in found:
            raise StorageError(f"{file}, line {line} names {row['file']}, which does not exist.")
        found[row["file"]] = parse_tags(f"{file}, line {line}", row["tags"])
    return [replace(record, tags=found[name]) for name, record in zip(names, records, strict=True)]


def read_uiuc_sports(
    root: str | os.PathLike[str], tags: str | None = SPORTS_ANNOTATIONS
) -> list[ImageRecord]:
    """Return the photographs of UIUC-Sports, in eight folders (`rockclimbing/image_0001.jpg`).

    Folder names may be in upper or lower case. A photograph has the tags of the line with its class
    and file name in the two files that `read_sports_annotations` reads. Lines without a photograph
    are a warning: the annotations are known to differ a little from the photographs. The files of
    the archive that is published today have other names (`Easy_Mid_polo_96.jpg`): no line matches,
    which is an error unless `tags` is None.

    Parameters
    ----------
    tags : name of the tag file in `root`; None if the tags are not known.
    """
    root = Path(root)
    top, paths = _find_photographs(root, _sport)
    records = _records(top, "UIUC-Sports", UIUC_SPORTS, paths, _sport)
    if tags is None:
        return records
    annotated = {
        (record.label, record.path.name): record.tags
        for record in read_sports_annotations(root, tags)
    }
    missing = annotated.keys() - {(record.label, record.path.name) for record in records}
    if len(missing) == len(annotated):
        raise StorageError(
            f"{root / SPORTS_NAMES} must name photographs below {root}, got none that exists; "
            "tags=None reads them without tags."
        )
    if missing:
        label, name = min(missing, key=str)
        warnings.warn(
            f"{root / SPORTS_NAMES} names {len(missing)} photographs that do not exist, "
            f"{label}/{name} among them.",
            stacklevel=2,
        )
    return [
        replace(record, tags=annotated.get((record.label, record.path.name))) for record in records
    ]


def read_sports_annotations(
    root: str | os.PathLike[str], tags: str = SPORTS_ANNOTATIONS
) -> list[ImageRecord]:
    """Return a record for every annotated photograph of UIUC-Sports, in the order of the files.

    Line i of `uiuc-sports-info.txt` is `class file`; line i of `uiuc-sports-annotations.txt` has
    its tags, separated by commas and repeated for objects that were outlined several times. A
    record has each tag once. The photographs need not exist: the tags alone are a small corpus.
    """
    root = Path(root)
    annotations, names = _file_in(root, tags), _file_in(root, SPORTS_NAMES)
    tag_lines, name_lines = read_lines(annotations), read_lines(names)
    if len(tag_lines) != len(name_lines):
        raise StorageError(
            f"{annotations} must have as many lines as {names}, {len(name_lines)}, "
            f"got {len(tag_lines)}."
        )
    records: dict[Path, ImageRecord] = {}
    for line, (name, text) in enumerate(zip(name_lines, tag_lines, strict=True), start=1):
        parts = name.split()
        if len(parts) != 2 or parts[0].casefold() not in UIUC_SPORTS:
            raise line_error(names, line, "a class of UIUC-Sports and the name of a file", name)
        path = root / parts[0] / parts[1]
        if path in records:
            raise line_error(names, line, "each file once", name)
        records[path] = ImageRecord(path, parts[0].casefold(), distinct_tags(text.split(",")))
    return list(records.values())


def _find_photographs(root: Path, labeller: Labeller) -> tuple[Path, list[PurePosixPath]]:
    """Return the folder that holds the classes, below those of an archive, and its photographs."""
    paths = list(map(PurePosixPath, list_folder(root).photographs))
    while (
        paths
        and len({path.parts[0] for path in paths}) == 1
        and len(paths[0].parts) > 1
        and labeller(paths[0]) is None
    ):
        root = root / paths[0].parts[0]
        paths = [PurePosixPath(*path.parts[1:]) for path in paths]
    return root, paths


def _records(
    root: Path, title: str, sizes: Sizes, paths: list[PurePosixPath], labeller: Labeller
) -> list[ImageRecord]:
    """Return the photographs of the classes, sorted; warn of what is not as published."""
    labels = {path: labeller(path) for path in paths}
    counts = Counter(labels.values())
    missing = [label for label in sizes if not counts[label]]
    if missing:
        raise StorageError(
            f"{root} must hold the classes of {title}, got no photographs of {', '.join(missing)}."
        )
    outside = [path for path, label in labels.items() if label is None]
    if outside:
        warnings.warn(
            f"{root} holds {len(outside)} photographs outside the classes of {title}, "
            f"{outside[0]} among them; they are skipped.",
            stacklevel=3,
        )
    other = [
        f"{counts[label]} of {label} ({' or '.join(map(str, published))})"
        for label, published in sizes.items()
        if counts[label] not in published
    ]
    if other:
        warnings.warn(
            f"{root} holds other numbers of photographs than published (in brackets): "
            f"{', '.join(other)}.",
            stacklevel=3,
        )
    found = [(label, path) for path, label in labels.items() if label is not None]
    found.sort(key=lambda each: (each[0], each[1].name, each[1].parts))
    return [ImageRecord(root / path, label) for label, path in found]


def _file_in(root: Path, name: str) -> Path:
    if not (root / name).is_file():
        raise StorageError(
            f"{root} must hold {name}, got no such file; tags=None reads photographs without tags."
        )
    return root / name


def _folder(path: PurePosixPath) -> str:
    """Return the normalised name of the first folder of a path; "" where there is none."""
    return re.sub(r"[\s_-]+", "", path.parts[0]).casefold() if len(path.parts) > 1 else ""


def _scene(path: PurePosixPath) -> str | None:
    name = re.sub(r"^(mit|cal|par)", "", _folder(path))
    return next((label for label in SCENE15 if label.casefold() == name), None)


def _is_numbered(path: PurePosixPath) -> bool:
    return re.fullmatch(r"[0-9]{1,2}", _folder(path)) is not None


def _numbered_scenes(root: Path, paths: list[PurePosixPath]) -> dict[str, str]:
    """Return the classes of numbered folders; every class of Scene15 has a size of its own."""
    classes = {size: label for label, (size,) in SCENE15.items()}
    counts = Counter(path.parts[0] for path in paths if _is_numbered(path))
    for folder, count in counts.items():
        if count not in classes:
            raise StorageError(
                f"{root / folder} must hold as many photographs as a class of Scene15 for its "
                f"number to be understood, got {count}."
            )
    return {folder: classes[count] for folder, count in counts.items()}


def _outdoor(path: PurePosixPath) -> str | None:
    name = _folder(path) or path.name.split("_")[0].casefold()
    return name if name in LABELME else None


def _sport(path: PurePosixPath) -> str | None:
    return _folder(path) if _folder(path) in UIUC_SPORTS else None


DIGEST_LENGTH = 16
"""Hexadecimal digits of a content digest: enough to tell ten thousand files apart."""

MIN_TAG_COUNT = 3
"""Tags on fewer photographs of the whole data set are removed, as in the paper."""


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set and the paper's use of it."""

    name: str
    title: str
    folder: str
    """Its name in a folder of all data sets."""
    read: Callable[[Path, str | None], list[ImageRecord]]
    tag_files: Mapping[str, str]
    """The file of every tag set, by name; the first set is learned for classification."""
    train_size: int | float
    test_size: int | None
    pool_size: int
    """Photographs of every class in the development pool."""
    max_side: int | None
    """Longest side of the photographs in pixels; None keeps their size."""
    example_classes: tuple[str, ...] = ()
    """Classes whose words and tags the page lists."""


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
        example_classes=("street", "forest", "highway", "coast"),
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
        example_classes=("sailing", "rowing", "polo", "badminton"),
    ),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class PhotoSet:
    """The photographs of a data set, with their classes and tags."""

    dataset: str
    names: tuple[str, ...]
    """`class/file`."""
    digests: tuple[str, ...]
    labels: tuple[str, ...]
    tags: dict[str, tuple[tuple[str, ...] | None, ...]]
    """The tags of every photograph, None where not known, by the name of the tag set."""
    paths: tuple[Path, ...] = ()
    """The files; empty on a machine that does not have them."""

    def __len__(self) -> int:
        """Return the number of photographs."""
        return len(self.names)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes, sorted."""
        return tuple(sorted(set(self.labels)))

    def label_numbers(self) -> NDArray[np.int64]:
        """Return the class number of every photograph, (photographs,)."""
        numbers: NDArray[np.int64] = np.searchsorted(np.array(self.classes), np.array(self.labels))
        return numbers

    def tag_counts(self, tag_set: str) -> tuple[sparse.csr_array, tuple[str, ...]]:
        """Return a tag set as 0 and 1, (photographs, tags), and its names, without rare tags."""
        tags = self.tags[tag_set]
        vocabulary = AnnotationVocabulary.of(tags, min_count=MIN_TAG_COUNT)
        return vocabulary.encode(tags), vocabulary.names

    def take(self, indices: Sequence[int] | NDArray[np.integer]) -> "PhotoSet":
        """Return some of the photographs."""
        return replace(
            self,
            names=tuple(self.names[i] for i in indices),
            digests=tuple(self.digests[i] for i in indices),
            labels=tuple(self.labels[i] for i in indices),
            tags={name: tuple(tags[i] for i in indices) for name, tags in self.tags.items()},
            paths=tuple(self.paths[i] for i in indices) if self.paths else (),
        )

    def save(self, path: Path) -> None:
        """Write everything but the paths as JSON."""
        fields = ("dataset", "names", "digests", "labels", "tags")
        content = {field: getattr(self, field) for field in fields}
        write_atomically(path, json.dumps(content, indent=0).encode())

    @classmethod
    def load(cls, path: Path) -> "PhotoSet":
        """Return what `save` wrote."""
        try:
            content = json.loads(path.read_text())
            return cls(
                dataset=content["dataset"],
                names=tuple(content["names"]),
                digests=tuple(content["digests"]),
                labels=tuple(content["labels"]),
                tags={
                    name: tuple(None if each is None else tuple(each) for each in tags)
                    for name, tags in content["tags"].items()
                },
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StorageError(f"{path} must list photographs, it cannot be read: {error}.") from (
                error
            )


def data_set(name: str) -> DataSet:
    """Return the data set of a name."""
    check_choice("dataset", name, tuple(DATA_SETS))
    return DATA_SETS[name]


def read_photo_set(
    name: str, folder: str | os.PathLike[str], progress: ProgressCallback = no_progress
) -> PhotoSet:
    """Read a data set.

    Parameters
    ----------
    folder : holds the photographs, or the folder `DataSet.folder` that does.
    """
    spec, root = data_set(name), Path(folder)
    if (root / spec.folder).is_dir():
        root = root / spec.folder
    records: list[ImageRecord] = []
    tags = {}
    for tag_set, file in spec.tag_files.items() or [("", None)]:
        found = spec.read(root, file)
        records = records or found
        if file is not None:
            tags[tag_set] = tuple(record.tags for record in found)
    digests = []
    for number, record in enumerate(records):
        digests.append((content_key(read_image_file(record.path)) or "")[:DIGEST_LENGTH])
        progress("looking for near-duplicates", number + 1, len(records))
    return PhotoSet(
        dataset=name,
        names=tuple(f"{record.label}/{record.path.name}" for record in records),
        digests=tuple(digests),
        labels=tuple(str(record.label) for record in records),
        tags=tags,
        paths=tuple(record.path for record in records),
    )

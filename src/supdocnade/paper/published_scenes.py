"""The paper's three data sets of photographs, as they are distributed.

Every reader looks for one folder a class, with whatever folders an archive puts around them all.
Records are sorted by class and file name. A class that is missing is an error; photographs outside
the classes, which are left out, and classes of another size than published are a warning, since
copies of these data sets with a few images more or fewer are common.

Scene15's eight outdoor classes are grey copies of LabelMe's photographs: never train on one and
test on the other.
"""

import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from supdocnade.errors import StorageError
from supdocnade.folders.photo_folder import (
    ImageRecord,
    distinct_tags,
    find_photographs,
    read_metadata,
)
from supdocnade.text import line_error, read_lines

Sizes = Mapping[str, tuple[int, ...]]
"""The classes of a data set, with the numbers of photographs that have been published."""

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
"""200 a class as in the paper, or all 2,688 (Oliva and Torralba 2001)."""

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
"""From the path of a photograph to its class; None: it is outside the classes."""


def read_scene15(root: str | os.PathLike[str]) -> list[ImageRecord]:
    """Return the photographs of Scene15: 4,485 in 15 classes, without tags.

    Folders may be called as in `SCENE15`, in any case of letters, with the source in front
    (`MITcoast`, `CALsuburb`, `PARoffice`) as the authors call them, or `00` to `14` as on figshare.
    Such numbers are told apart by how many photographs each folder holds.
    """
    top, paths = _photographs(Path(root), lambda path: "" if _is_numbered(path) else _scene(path))
    numbers = _scenes_by_size(top, paths)
    return _records(
        top, "Scene15", SCENE15, paths, lambda path: numbers.get(path.parts[0]) or _scene(path)
    )


def read_labelme(
    root: str | os.PathLike[str], tags: str | None = "tags_free.tsv"
) -> list[ImageRecord]:
    """Return the photographs of the eight outdoor classes of LabelMe.

    They are in folders (`coast/coast_bea1.jpg`) or, as in the published archive, all in one
    (`coast_bea1.jpg`), where their names give the class.

    Parameters
    ----------
    tags : the file in `root` that has them, `class/file<TAB>tag|tag` a line after a header line
        (`tags_free.tsv` or `tags_33.tsv`); None: the tags are not known.
    """
    root = Path(root)
    top, paths = _photographs(root, _outdoor)
    records = _records(top, "LabelMe", LABELME, paths, _outdoor)
    if tags is None:
        return records
    file = _beside(root, tags)
    entries = read_metadata(file)
    names = [f"{record.label}/{record.path.name}" for record in records]
    known = set(names)
    for name, entry in entries.items():
        if name not in known:
            raise StorageError(f"{file}, line {entry.line} names {name}, which does not exist.")
    return [
        replace(record, tags=entries[name].tags if name in entries else None)
        for name, record in zip(names, records, strict=True)
    ]


def read_uiuc_sports(
    root: str | os.PathLike[str], tags: str | None = SPORTS_ANNOTATIONS
) -> list[ImageRecord]:
    """Return the photographs of UIUC-Sports, in eight folders (`rockclimbing/image_0001.jpg`).

    Folders may be called in any case of letters. The tags come from the two files that
    `read_sports_annotations` describes; where the same class and file name is there, a photograph
    has the tags of that line. Lines whose photograph is not there are a warning: the annotations
    are known to differ a little from the photographs. In the archive that is published today
    the files have other names (`Easy_Mid_polo_96.jpg`); none is the name of a line, which is an
    error unless `tags` is None.

    Parameters
    ----------
    tags : the file in `root` that has them; None: the tags are not known.
    """
    root = Path(root)
    top, paths = _photographs(root, _sport)
    records = _records(top, "UIUC-Sports", UIUC_SPORTS, paths, _sport)
    if tags is None:
        return records
    described = {
        (record.label, record.path.name): record.tags
        for record in read_sports_annotations(root, tags)
    }
    missing = described.keys() - {(record.label, record.path.name) for record in records}
    if len(missing) == len(described):
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
        replace(record, tags=described.get((record.label, record.path.name))) for record in records
    ]


def read_sports_annotations(
    root: str | os.PathLike[str], tags: str = SPORTS_ANNOTATIONS
) -> list[ImageRecord]:
    """Return a record for every annotated photograph of UIUC-Sports, in the order of the files.

    Line i of `uiuc-sports-info.txt` is `class file`, line i of `uiuc-sports-annotations.txt` has
    its tags, separated by commas. Objects that were outlined several times are repeated there; a
    record has each tag once. The photographs need not exist: the tags alone are a small corpus.
    """
    root = Path(root)
    annotations, names = _beside(root, tags), _beside(root, SPORTS_NAMES)
    lines, described = read_lines(annotations), read_lines(names)
    if len(lines) != len(described):
        raise StorageError(
            f"{annotations} must have as many lines as {names}, {len(described)}, got {len(lines)}."
        )
    records: dict[Path, ImageRecord] = {}
    for line, (given, text) in enumerate(zip(described, lines, strict=True), start=1):
        parts = given.split()
        if len(parts) != 2 or parts[0].casefold() not in UIUC_SPORTS:
            raise line_error(names, line, "a class of UIUC-Sports and the name of a file", given)
        path = root / parts[0] / parts[1]
        if path in records:
            raise line_error(names, line, "each file once", given)
        records[path] = ImageRecord(path, parts[0].casefold(), distinct_tags(text.split(",")))
    return list(records.values())


def _photographs(root: Path, labeller: Labeller) -> tuple[Path, list[PurePosixPath]]:
    """Return the folder that has the classes, and the photographs below it.

    Archives put folders around all they hold; these are looked through.
    """
    paths = find_photographs(root)
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
    """Return the photographs of the classes, sorted; say what is not as published."""
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
            f"{outside[0]} among them; they are left out.",
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


def _beside(root: Path, name: str) -> Path:
    if not (root / name).is_file():
        raise StorageError(
            f"{root} must hold {name}, got no such file; tags=None reads photographs without tags."
        )
    return root / name


def _folder(path: PurePosixPath) -> str:
    """Return the first folder of a path in one spelling; "" where there is none."""
    return re.sub(r"[\s_-]+", "", path.parts[0]).casefold() if len(path.parts) > 1 else ""


def _scene(path: PurePosixPath) -> str | None:
    name = re.sub(r"^(mit|cal|par)", "", _folder(path))
    return next((label for label in SCENE15 if label.casefold() == name), None)


def _is_numbered(path: PurePosixPath) -> bool:
    return re.fullmatch(r"[0-9]{1,2}", _folder(path)) is not None


def _scenes_by_size(root: Path, paths: list[PurePosixPath]) -> dict[str, str]:
    """Return the classes of numbered folders, since no two classes of Scene15 are equally large."""
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

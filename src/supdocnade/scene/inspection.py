"""Inspection of photographs before anything is learned.

Every photograph is read once. All files that cannot be read are found at once, and so are
near-duplicates: photographs whose thumbnails correlate almost perfectly. They must be on one side
of the held-out set, which is chosen here: results on a photograph are too good if the model was
trained on a copy of it.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from supdocnade.errors import UnreadableImages
from supdocnade.folders.tags import find_similar_names
from supdocnade.images.decode import DecodeConfig, decode
from supdocnade.images.reading import SkippedImage, map_images, read_with_key
from supdocnade.runs import RunOptions
from supdocnade.scene.dataset import SMALL_CLASS, Photographs
from supdocnade.seeding import named_generator
from supdocnade.visual_words.describer import SIFTDescriber

INSPECTING = "checking photographs"
"""Stage reported to `RunOptions.progress`."""

LIMIT = 5
"""Number of names in a note."""

THUMBNAIL_SIDE = 32
MIN_CORRELATION = 0.992
"""Least correlation of near-duplicates. On LabelMe and Scene15 the most similar other photograph
correlates above 0.995 (the same picture) or below 0.99, and nearly always below 0.95."""

_BLOCK = 512


def inspect_photographs(
    photographs: Photographs,
    describer: SIFTDescriber | None = None,
    options: RunOptions = RunOptions(),
) -> tuple[NDArray[np.int64], tuple[SkippedImage, ...]]:
    """Read all photographs; return numbers equal for near-duplicates, and the unreadable ones.

    Parameters
    ----------
    describer : will describe the photographs; one that is too small for a patch is unreadable.
        By default, any size will do.

    Raises
    ------
    UnreadableImage : some cannot be read, and `options.on_error` is "raise".
    """
    thumbnails: list[NDArray[np.uint8]] = []
    keys, skipped = [], []
    inspect = partial(_inspect_photograph, describer)
    skipping = replace(options, on_error="skip")
    for number, found in enumerate(
        map_images(inspect, photographs.sources, skipping, stage=INSPECTING)
    ):
        if isinstance(found, SkippedImage):
            skipped.append(found)
            found = np.zeros((1, 1), np.uint8), None
        thumbnails.append(found[0])
        keys.append(found[1] or f"image {number}")
    if skipped and options.on_error == "raise":
        raise UnreadableImages([each.reason for each in skipped])
    return group_near_duplicates(thumbnails, keys), tuple(skipped)


def _inspect_photograph(
    describer: SIFTDescriber | None, source: Any, name: str, number: int
) -> tuple[NDArray[np.uint8], str | None]:
    """Return the thumbnail and the key of a photograph."""
    source, key = read_with_key(source)
    thumbnail = comparison_thumbnail(source, name)
    if describer is not None:
        describer.check_size(source, name)
    return thumbnail, key


def comparison_thumbnail(source: Any, name: str = "") -> NDArray[np.uint8]:
    """Return the thumbnail by which a photograph is compared with others."""
    return decode(source, DecodeConfig(max_side=THUMBNAIL_SIDE), name=name, reduced=True)


def find_class_conflicts(
    photographs: Photographs, picture_B: NDArray[np.integer]
) -> list[tuple[str, str]]:
    """Return the names of two photographs of each picture that occurs in several classes.

    Parameters
    ----------
    picture_B : (photographs,) equal for near-duplicates.
    """
    first: dict[int, int] = {}
    conflicts: dict[int, tuple[str, str]] = {}
    for number, picture in enumerate(picture_B.tolist()):
        label = photographs.labels[number]
        if label is None:
            continue
        other = first.setdefault(picture, number)
        if photographs.labels[other] != label:
            conflicts.setdefault(picture, (photographs.names[other], photographs.names[number]))
    return list(conflicts.values())


def hold_out(
    photographs: Photographs,
    fraction: float,
    seed: int,
    picture_B: NDArray[np.int64],
    never_B: NDArray[np.bool_] | None = None,
    always_B: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """Return a mask of the held-out photographs: a share of every class, near-duplicates together.

    No photographs of classes with fewer than five are held out, and no near-duplicates that are
    together more than the share of their class.

    Parameters
    ----------
    fraction : the share; 0 holds out nothing.
    picture_B : (photographs,) equal for near-duplicates.
    never_B : (photographs,) True for those that must not be held out. By default, none.
    always_B : (photographs,) True for those that are held out in addition to the share of the
        others. By default, none.
    """
    held_B = np.zeros(len(photographs), np.bool_)
    if fraction == 0:
        return held_B
    never_B = np.zeros_like(held_B) if never_B is None else never_B
    always_B = np.zeros_like(held_B) if always_B is None else always_B
    labels = [label or "" for label in photographs.labels]
    small = {label for label, count in Counter(labels).items() if count < SMALL_CLASS}
    groups: dict[int, list[int]] = {}
    fixed_B = never_B | always_B | np.array([label in small for label in labels])
    for number in np.flatnonzero(~fixed_B).tolist():
        groups.setdefault(int(picture_B[number]), []).append(number)
    order = named_generator(seed, "split", 0).permutation(len(groups))
    tied = list(groups.values())
    counts = Counter(labels[number] for group in tied for number in group)
    room = {label: n - math.floor((1 - fraction) * n + 0.5) for label, n in counts.items()}
    for place in order[::-1]:
        needed = Counter(labels[number] for number in tied[place])
        if all(n <= room[label] for label, n in needed.items()):
            held_B[tied[place]] = True
            for label, n in needed.items():
                room[label] -= n
    held_B |= np.isin(picture_B, picture_B[always_B]) & ~never_B
    # Near-duplicates of photographs in the training part, whose class may be too small to split.
    held_B[np.isin(picture_B, picture_B[~held_B])] = False
    if held_B.all():  # All show one picture, which is needed for training.
        held_B[:] = False
    return held_B


def describe_small_classes(counts: Mapping[str, int], limit: int = LIMIT) -> str:
    """Return a sentence about classes that are too small to hold out photographs, or "".

    Parameters
    ----------
    counts : number of photographs of each class.
    limit : maximum number of classes to name.
    """
    small = [f"{label} ({n})" for label, n in sorted(counts.items()) if n < SMALL_CLASS]
    if not small:
        return ""
    return (
        f"classes of fewer than {SMALL_CLASS} photographs, too few to hold any out: "
        f"{list_some(small, limit)}."
    )


def describe_rare_tags(counts: Mapping[str, int], min_count: int, limit: int = LIMIT) -> str:
    """Return a sentence about tags that are not learned, "" if there are none.

    Parameters
    ----------
    counts : number of photographs of each tag.
    limit : maximum number of tags to name.
    """
    rare = sorted(name for name, count in counts.items() if count < min_count)
    if not rare:
        return ""
    number = "a tag" if len(rare) == 1 else f"{len(rare)} tags"
    return (
        f"{number} on fewer than {min_count} photographs, too few to be learned "
        f"(--set min_tag_count): {list_some(rare, limit)}."
    )


def describe_single_class(counts: Mapping[str, int]) -> str:
    """Return a sentence about the class that all labelled photographs have, "" if there are more.

    `counts` are the numbers of photographs of each class.
    """
    if len(counts) != 1:
        return ""
    return (
        "all labelled photographs are of one class: every photograph will be called "
        f"{min(counts)}; add photographs of other classes."
    )


def describe_similar_names(counts: Mapping[str, int], kind: str, limit: int = LIMIT) -> str:
    """Return a sentence about names that may be misspelt, "" if there are none.

    Parameters
    ----------
    counts : number of photographs of each name.
    kind : "classes" or "tags".
    limit : maximum number of pairs to name.
    """
    similar = find_similar_names(counts)
    pairs = [f"{one} ({counts[one]}) and {other} ({counts[other]})" for one, other in similar]
    return f"{kind} that look alike: {list_some(pairs, limit)}." if pairs else ""


def list_some(items: Sequence[str], limit: int) -> str:
    """Return the first items, in quotes if they have commas, and the number of the others.

    >>> list_some(["sea", "sky, grey", "tree", "sand"], 2)
    'sea, "sky, grey" and 2 more'
    """
    more = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(f'"{each}"' if "," in each else each for each in items[:limit]) + more


def describe_class_conflicts(conflicts: Sequence[tuple[str, str]]) -> str:
    """Return a sentence about photographs that are in several classes, "" if there are none.

    Parameters
    ----------
    conflicts : as `find_class_conflicts` returns them.
    """
    if not conflicts:
        return ""
    one, other = conflicts[0]
    if len(conflicts) == 1:
        return f"a photograph is in two classes: {one} and {other}."
    return f"{len(conflicts)} photographs are in two classes, such as {one} and {other}."


def group_near_duplicates(
    thumbnails: Sequence[NDArray[np.uint8]], keys: Sequence[str]
) -> NDArray[np.int64]:
    """Return a number for every image, the same for near-duplicates, (images,).

    Numbers count from 0 in order of first appearance.

    Parameters
    ----------
    thumbnails : made by `comparison_thumbnail`.
    keys : digests of the contents; images of equal keys are one picture in any case.
    """
    _, key_B = np.unique(np.array(keys), return_inverse=True)
    firsts = np.full(key_B.max() + 1, len(keys))
    np.minimum.at(firsts, key_B, np.arange(len(keys)))
    pairs = [(np.arange(len(keys)), firsts[key_B])]
    for shape in sorted({thumbnail.shape for thumbnail in thumbnails}):
        members = np.flatnonzero([thumbnail.shape == shape for thumbnail in thumbnails])
        values = np.stack([thumbnails[i].reshape(-1) for i in members.tolist()])
        first, second = _correlated_pairs(_standardize(values))
        pairs.append((members[first], members[second]))
    rows, columns = (np.concatenate(each) for each in zip(*pairs, strict=True))
    links = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(keys),) * 2)
    component_B = connected_components(links, directed=False)[1]
    _, first_B, number_B = np.unique(component_B, return_index=True, return_inverse=True)
    order: NDArray[np.int64] = np.argsort(np.argsort(first_B))[number_B]
    return order


def _standardize(values_BP: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return thumbnails of mean 0 and norm 1; constant ones become 0, which matches no other."""
    unit_BP = np.empty(values_BP.shape, np.float32)
    for start in range(0, len(values_BP), _BLOCK):  # In blocks, since float64 takes much memory.
        block = values_BP[start : start + _BLOCK]
        centred = block - block.mean(axis=1, keepdims=True, dtype=np.float64)
        norm = np.linalg.norm(centred, axis=1, keepdims=True)
        unit_BP[start : start + _BLOCK] = np.divide(
            centred, norm, out=np.zeros_like(centred), where=norm > 0
        )
    return unit_BP


def _correlated_pairs(
    values_BP: NDArray[np.float32],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pairs of standardised thumbnails that correlate at least `MIN_CORRELATION`.

    Their distance is at most √(2 − 2 · correlation), and so is that of their projections on any
    direction. Thumbnails are sorted by the projection on a ramp from top to bottom, in which
    photographs differ much, and compared with those within that distance.
    """
    ramp = np.linspace(-1, 1, values_BP.shape[1], dtype=np.float32)
    position_B = values_BP @ (ramp / max(float(np.linalg.norm(ramp)), 1e-9))
    order = np.argsort(position_B, kind="stable")
    values_BP, position_B = values_BP[order], position_B[order]
    reach = np.sqrt(2 - 2 * MIN_CORRELATION) + 1e-4
    rows, columns = [], []
    for start in range(0, len(values_BP), _BLOCK):
        block = values_BP[start : start + _BLOCK]
        end = np.searchsorted(position_B, position_B[start + len(block) - 1] + reach, "right")
        first, second = np.nonzero(block @ values_BP[start:end].T >= MIN_CORRELATION)
        rows.append(order[first + start])
        columns.append(order[second + start])
    return np.concatenate(rows), np.concatenate(columns)

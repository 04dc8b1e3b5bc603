"""The development pool and the five splits, with near-duplicates on one side.

`python -m experiments.paper.protocol` writes the stored protocols of Scene15 and LabelMe. The same
files always give the same protocols. Both data sets are needed, since they share pictures.

The pool takes pictures in the order of their content digests until every class has its number; it
depends neither on names nor on chance. A split is the paper's: a number of photographs of every
class for training, the others for testing. A fifth of the training part is held out for choices.
The protocols of the published files are stored in `protocols`; other photographs get one by the
same rules.

Near-duplicates stay together in the pool and in every split, also across data sets: Scene15's
outdoor classes are grey copies of LabelMe's photographs, and some of Scene15's own were saved
twice (`scene.inspection`).
"""

import hashlib
import json
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.data import data_folder
from experiments.paper.data_sets import DataSet, PhotoSet, data_set, read_photo_set
from experiments.paper.splits import Group, Split, split_per_class, take_groups
from supdocnade.errors import StorageError
from supdocnade.folders.photo_folder import ImageRecord
from supdocnade.images.decode import read_image_file
from supdocnade.images.reading import content_key, map_images
from supdocnade.runs import RunOptions
from supdocnade.scene.inspection import comparison_thumbnail, group_near_duplicates
from supdocnade.storage import write_atomically

N_SPLITS = 5
HELD_OUT = 0.2
"""Share of the training part on which hyper-parameters are chosen."""

SPLIT_SEED, HOLD_OUT_SEED = 0, 1

LEARN, HOLD, TEST, UNUSED = "lht-"
"""Roles of a photograph in a split: training, held out, test, none."""

STORED = Path(__file__).parent / "protocols"


class Parts(NamedTuple):
    """Indices of the photographs in the parts of one split."""

    fit: NDArray[np.int64]
    """The training part without the held-out photographs."""
    held: NDArray[np.int64]
    train: NDArray[np.int64]
    """The whole training part."""
    test: NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Protocol:
    """The pool and the splits of one data set."""

    picture_B: NDArray[np.int64]
    """(photographs,) equal for near-duplicates."""
    pool_B: NDArray[np.bool_]
    """(photographs,) true in the development pool."""
    roles: tuple[str, ...]
    """One string per photograph, with one role per split."""
    stored: bool
    """True for the stored protocol of the published files."""

    @property
    def n_splits(self) -> int:
        """The number of splits."""
        return len(self.roles[0]) if self.roles else 0

    def parts(self, split: int) -> Parts:
        """Return the parts of one split."""
        role_B = np.array([roles[split] for roles in self.roles])
        fit, held, test = (np.flatnonzero(role_B == role) for role in (LEARN, HOLD, TEST))
        return Parts(fit, held, np.sort(np.concatenate([fit, held])), test)


def protocol_for(photos: PhotoSet, options: RunOptions = RunOptions()) -> Protocol:
    """Return the stored protocol if these are the published files, otherwise a new one."""
    if stored := _read_stored(photos):
        return stored
    return make_protocols({photos.dataset: photos}, options=options)[photos.dataset]


def make_protocols(
    photo_sets: Mapping[str, PhotoSet],
    *,
    n_splits: int = N_SPLITS,
    options: RunOptions = RunOptions(),
) -> dict[str, Protocol]:
    """Return the pools and splits of data sets that may share pictures."""
    sets = list(photo_sets.values())
    paths = [path for photos in sets for path in photos.paths]
    digests = [digest for photos in sets for digest in photos.digests]
    thumbnails = map_images(_make_thumbnail, paths, options, stage="looking for near-duplicates")
    picture_N = group_near_duplicates([np.asarray(each) for each in thumbnails], digests)
    labels = [(photos.dataset, label) for photos in sets for label in photos.labels]
    pool_N = _choose_pool(labels, digests, picture_N)
    protocols, start = {}, 0
    for photos in sets:
        own = slice(start, start + len(photos))
        start += len(photos)
        spec, picture_B = data_set(photos.dataset), picture_N[own]
        splits = [_split(photos.labels, picture_B, spec, number) for number in range(n_splits)]
        protocols[photos.dataset] = Protocol(
            picture_B=picture_B,
            pool_B=pool_N[own],
            roles=tuple("".join(each) for each in zip(*splits, strict=True)),
            stored=False,
        )
    return protocols


def _choose_pool(
    labels: Sequence[tuple[str, str]], digests: Sequence[str], picture_N: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which photographs are in the pool, taking pictures in the order of their least digest.

    Pictures of several data sets come first, since they need room in all of them.
    """
    groups: dict[int, Group] = {}
    for index, picture in enumerate(picture_N.tolist()):
        groups.setdefault(picture, []).append(index)

    def priority(group: Group) -> tuple[int, str]:
        n_sets = len({labels[index][0] for index in group})
        return -n_sets, min(digests[index] for index in group)

    sizes: dict[Hashable, int] = {}
    for label, count in Counter(labels).items():
        size = data_set(label[0]).pool_size
        sizes[label] = size if count >= 2 * size else count // 3  # A third of a small class.
    inside, _ = take_groups(sorted(groups.values(), key=priority), labels, sizes)
    pool_N = np.zeros(len(labels), np.bool_)
    pool_N[[index for group in inside for index in group]] = True
    return pool_N


def _split(
    labels: Sequence[str], picture_B: NDArray[np.int64], spec: DataSet, number: int
) -> list[str]:
    """Return the role of every photograph in one split."""
    smallest = min(Counter(labels).values())
    train_size, test_size = spec.train_size, spec.test_size
    is_small = isinstance(train_size, int) and smallest < 2 * train_size
    if is_small and (test_size or smallest <= train_size):
        # The published classes are large enough; half of a smaller class is for training.
        train_size, test_size = 0.5, None
    outer = split_per_class(
        labels,
        train_size=train_size,
        test_size=test_size,
        seed=SPLIT_SEED,
        number=number,
        groups=picture_B,
    )
    train = set(outer.train.tolist())
    inner = split_per_class(
        [label if index in train else None for index, label in enumerate(labels)],
        train_size=1 - HELD_OUT,
        seed=HOLD_OUT_SEED,
        number=number,
        groups=picture_B,
    )
    roles = np.full(len(labels), UNUSED)
    roles[outer.test], roles[inner.train], roles[inner.test] = TEST, LEARN, HOLD
    return [str(role) for role in roles]


def split_records(
    dataset: str, records: Sequence[ImageRecord], *, seed: int, number: int = 0
) -> Split:
    """Split photographs as the paper does, with identical files on one side.

    Parameters
    ----------
    records : as a reader of the data set returns them; a split depends on their order.
    seed, number : see `split_per_class`.
    """
    keys = [str(content_key(read_image_file(record.path))) for record in records]
    _, group_B = np.unique(keys, return_inverse=True)
    spec = data_set(dataset)
    return split_per_class(
        [record.label for record in records],
        train_size=spec.train_size,
        test_size=spec.test_size,
        seed=seed,
        number=number,
        groups=group_B,
    )


def write_protocol(path: Path, photos: PhotoSet, protocol: Protocol) -> None:
    """Write a protocol as JSON, in the order of the photographs' digests.

    The digests themselves are not stored, only a digest of all of them, which tells for which
    photographs the protocol is. Files of equal content have one row.
    """
    first_row: dict[int, int] = {}
    near_duplicates = []
    rows = []
    of_digest = {digest: index for index, digest in enumerate(photos.digests)}
    for row, (_, index) in enumerate(sorted(of_digest.items())):
        rows.append(("P" if protocol.pool_B[index] else UNUSED) + protocol.roles[index])
        first = first_row.setdefault(int(protocol.picture_B[index]), row)
        if first != row:
            assert rows[first] == rows[row], "near-duplicates have the same roles"
            near_duplicates.append([first, row])
    pool, *splits = ("".join(column) for column in zip(*rows, strict=True))
    content = {
        "dataset": photos.dataset,
        "photographs": _digest_of(photos),
        "near_duplicates": near_duplicates,
        "pool": pool,
        "splits": splits,
    }
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
    write_atomically(path, f"{{\n{lines}\n}}\n".encode())


def read_protocol(path: Path, photos: PhotoSet) -> Protocol:
    """Return the protocol that a file holds for some photographs."""
    protocol = _match(path, photos, stored=_read_stored(photos) is not None)
    if protocol is None:
        raise StorageError(f"{path} must be for these photographs, it is for others.")
    return protocol


def read_rows(path: Path) -> tuple[str, list[tuple[int, bool, str]]]:
    """Return the content of a protocol's file.

    This is the digest of the photographs' digests, then for every row, in the order of the digests,
    its picture number, whether it is in the pool, and its roles.
    """
    try:
        content = json.loads(path.read_text())
        columns = [content["pool"], *content["splits"]]
        if not set("".join(columns)) <= {"P", LEARN, HOLD, TEST, UNUSED}:
            raise ValueError("unknown roles")
        duplicate_of = {row: first for first, row in content["near_duplicates"]}
        pictures: list[int] = []
        n_pictures = 0
        for row in range(len(columns[0])):
            is_new = row not in duplicate_of
            pictures.append(n_pictures if is_new else pictures[duplicate_of[row]])
            n_pictures += is_new
        rows = [
            (picture, pool == "P", "".join(roles))
            for picture, pool, *roles in zip(pictures, *columns, strict=True)
        ]
        return str(content["photographs"]), rows
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise StorageError(f"{path} must hold a protocol, it cannot be read: {error}.") from error


def _read_stored(photos: PhotoSet) -> Protocol | None:
    path = STORED / f"{photos.dataset}.json"
    return _match(path, photos, stored=True) if path.is_file() else None


def _match(path: Path, photos: PhotoSet, *, stored: bool) -> Protocol | None:
    """Return the protocol of a file in the order of the photographs; None if it is for others."""
    digest, rows = read_rows(path)
    row_of = {each: row for row, each in enumerate(sorted(set(photos.digests)))}
    if digest != _digest_of(photos) or len(rows) != len(row_of):
        return None
    ordered = [rows[row_of[each]] for each in photos.digests]
    return Protocol(
        picture_B=np.array([picture for picture, _, _ in ordered]),
        pool_B=np.array([in_pool for _, in_pool, _ in ordered]),
        roles=tuple(roles for _, _, roles in ordered),
        stored=stored,
    )


def _digest_of(photos: PhotoSet) -> str:
    text = "".join(sorted(set(photos.digests)))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _make_thumbnail(source: Any, name: str, number: int) -> NDArray[np.uint8]:
    return comparison_thumbnail(source, name)


def main() -> None:
    """Write the stored protocols, and print what they hold."""
    photo_sets = {name: read_photo_set(name, data_folder(name)) for name in ("scene15", "labelme")}
    protocols = make_protocols(photo_sets, options=RunOptions(n_jobs=-1))
    pictures = {name: set(each.picture_B.tolist()) for name, each in protocols.items()}
    both = pictures["scene15"] & pictures["labelme"]
    for name, protocol in protocols.items():
        photos = photo_sets[name]
        write_protocol(STORED / f"{name}.json", photos, protocol)
        sizes = Counter(protocol.picture_B.tolist())
        copies = sum(size for size in sizes.values() if size > 1)
        shared = int(np.isin(protocol.picture_B, list(both)).sum())
        pool = Counter(np.array(photos.labels)[protocol.pool_B].tolist())
        print(
            f"{name}: {len(photos)} photographs, {len(sizes)} pictures; {copies} photographs have "
            f"a near-duplicate, {shared} one in the other data set; "
            f"pool {sorted(set(pool.values()))} per class"
        )


if __name__ == "__main__":
    main()

"""Who learns, who chooses and who tests: the development pool and the five splits, fixed once.

Photographs that show one picture (`copies`) stay together in everything, also across data sets. The
pool takes pictures in the order of their content digests until every class has its number; it does
not depend on names or on chance. A split is the paper's: so many of every class to learn from, the
others to test. A fifth of what is learned from is held out for choices. The two protocols for the
published files are stored with this package; other photographs get one by the same rules.
"""

import json
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import StorageError
from supdocnade.folders.splits import Group, split_per_class, take_groups
from supdocnade.paper.data_sets import DataSet, PhotoSet, data_set
from supdocnade.paper.near_duplicates import same_pictures
from supdocnade.run_options import RunOptions
from supdocnade.storage import write_atomically

N_SPLITS = 5
HELD_OUT = 0.2
"""Of what is learned from, for choosing hyper-parameters."""

SPLIT_SEED, HOLD_OUT_SEED = 0, 1

LEARN, HOLD, TEST, UNUSED = "lht-"
"""What a photograph is for in a split; held out ones are learned from in the end, too."""

STORED = Path(__file__).parent / "protocols"


class Parts(NamedTuple):
    """Places of photographs in one split."""

    fit: NDArray[np.int64]
    """To learn from while choosing."""
    held: NDArray[np.int64]
    """To choose on."""
    train: NDArray[np.int64]
    """Both together: to learn from in the end."""
    test: NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Protocol:
    """The pool and the splits of one data set."""

    dataset: str
    picture_B: NDArray[np.int64]
    """(photographs,) equal where they show one picture."""
    pool_B: NDArray[np.bool_]
    """(photographs,) whether they are in the development pool."""
    roles: tuple[str, ...]
    """A letter for every split, for every photograph."""
    stored: bool
    """Whether it is the one that was fixed for the published files."""

    @property
    def n_splits(self) -> int:
        """How many splits there are."""
        return len(self.roles[0]) if self.roles else 0

    def parts(self, split: int) -> Parts:
        """Return the parts of one split."""
        role_B = np.array([roles[split] for roles in self.roles])
        fit, held, test = (np.flatnonzero(role_B == role) for role in (LEARN, HOLD, TEST))
        return Parts(fit, held, np.sort(np.concatenate([fit, held])), test)


def protocol_for(photos: PhotoSet, n_jobs: int | None = None) -> Protocol:
    """Return the stored protocol if these are the published files, otherwise one of their own."""
    known = _stored_for(photos)
    if known is not None:
        return _aligned(photos, known, stored=True)
    return make_protocols({photos.dataset: photos}, n_jobs=n_jobs)[photos.dataset]


def _stored_for(photos: PhotoSet) -> "Pictures | None":
    """Return what is stored for the published files, if these are they."""
    path = STORED / f"{photos.dataset}.json"
    known = read_pictures(path) if path.is_file() else {}
    return known if set(known) == set(photos.digests) else None


def make_protocols(
    photo_sets: Mapping[str, PhotoSet], *, n_splits: int = N_SPLITS, n_jobs: int | None = None
) -> dict[str, Protocol]:
    """Fix pools and splits of data sets that may hold the same pictures."""
    sets = list(photo_sets.values())
    paths = [path for photos in sets for path in photos.paths]
    digests = [digest for photos in sets for digest in photos.digests]
    picture_N = same_pictures(paths, digests, RunOptions(n_jobs=n_jobs))
    labels = [(photos.dataset, label) for photos in sets for label in photos.labels]
    pool_N = _pool(labels, digests, picture_N)
    protocols, start = {}, 0
    for photos in sets:
        mine = slice(start, start + len(photos))
        start += len(photos)
        spec, picture_B = data_set(photos.dataset), picture_N[mine]
        splits = [_split(photos.labels, picture_B, spec, number) for number in range(n_splits)]
        protocols[photos.dataset] = Protocol(
            dataset=photos.dataset,
            picture_B=picture_B,
            pool_B=pool_N[mine],
            roles=tuple("".join(each) for each in zip(*splits, strict=True)),
            stored=False,
        )
    return protocols


def _pool(
    labels: Sequence[tuple[str, str]], digests: Sequence[str], picture_N: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which photographs are in the pool: pictures in the order of their least digest.

    Those of several data sets come first: they have to find room in all of them.
    """
    groups: dict[int, Group] = {}
    for place, picture in enumerate(picture_N.tolist()):
        groups.setdefault(picture, []).append(place)

    def turn(group: Group) -> tuple[int, str]:
        n_sets = len({labels[place][0] for place in group})
        return -n_sets, min(digests[place] for place in group)

    ordered = sorted(groups.values(), key=turn)
    counts = Counter(labels)
    wanted: dict[Hashable, int] = {
        label: _pool_size(data_set(label[0]).pool_size, n) for label, n in counts.items()
    }
    inside, _ = take_groups(ordered, labels, wanted)
    pool_N = np.zeros(len(labels), np.bool_)
    pool_N[[place for group in inside for place in group]] = True
    return pool_N


def _pool_size(wanted: int, n_photographs: int) -> int:
    """Return how many of a class are in the pool: of small classes a third."""
    return wanted if n_photographs >= 2 * wanted else n_photographs // 3


def _split(
    labels: Sequence[str], picture_B: NDArray[np.int64], spec: DataSet, number: int
) -> list[str]:
    """Return the letter of every photograph in one split."""
    smallest = min(labels.count(label) for label in set(labels))
    train_size, test_size = spec.train_size, spec.test_size
    if isinstance(train_size, int) and smallest < 2 * train_size:
        # The published ones are large enough; of fewer photographs half are learned from.
        train_size, test_size = (
            (train_size, test_size) if smallest > train_size and not test_size else (0.5, None)
        )
    cut = split_per_class(
        labels,
        train_size=train_size,
        test_size=test_size,
        seed=SPLIT_SEED,
        number=number,
        groups=picture_B,
    )
    learned = np.zeros(len(labels), np.bool_)
    learned[cut.train] = True
    inner = split_per_class(
        [label if mine else None for label, mine in zip(labels, learned, strict=True)],
        train_size=1 - HELD_OUT,
        seed=HOLD_OUT_SEED,
        number=number,
        groups=picture_B,
    )
    roles = np.full(len(labels), UNUSED)
    roles[cut.test], roles[inner.train], roles[inner.test] = TEST, LEARN, HOLD
    return [str(role) for role in roles]


Pictures = dict[str, tuple[int, bool, str]]
"""From a digest to the number of its picture, whether it is in the pool, and its roles."""


def write_pictures(path: Path, photos: PhotoSet, protocol: Protocol) -> None:
    """Write a protocol as JSON, a line a picture: its digests, then `P` or `-` and its roles."""
    lines: dict[int, tuple[list[str], str]] = {}
    for place, digest in enumerate(photos.digests):
        roles = ("P" if protocol.pool_B[place] else UNUSED) + protocol.roles[place]
        digests, first = lines.setdefault(int(protocol.picture_B[place]), ([], roles))
        assert first == roles, "copies of a picture are for the same thing"
        if digest not in digests:
            digests.append(digest)
    ordered = sorted((sorted(digests), roles) for digests, roles in lines.values())
    body = ",\n".join(json.dumps([roles, *digests]) for digests, roles in ordered)
    title = json.dumps(photos.dataset)
    write_atomically(path, f'{{"dataset": {title}, "pictures": [\n{body}\n]}}\n'.encode())


def read_pictures(path: Path) -> Pictures:
    """Return what `write_pictures` wrote."""
    try:
        return {
            digest: (number, roles[0] == "P", roles[1:])
            for number, (roles, *digests) in enumerate(json.loads(path.read_text())["pictures"])
            for digest in digests
        }
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise StorageError(f"{path} must hold a protocol, it cannot be read: {error}.") from error


def read_protocol(path: Path, photos: PhotoSet) -> Protocol:
    """Return the protocol that a file has for some photographs."""
    known = read_pictures(path)
    if set(known) != set(photos.digests):
        raise StorageError(f"{path} must be for these photographs, it is for others.")
    return _aligned(photos, known, stored=_stored_for(photos) is not None)


def _aligned(photos: PhotoSet, known: Pictures, *, stored: bool) -> Protocol:
    """Return a stored protocol in the order of the photographs."""
    found = [known[digest] for digest in photos.digests]
    return Protocol(
        dataset=photos.dataset,
        picture_B=np.array([number for number, _, _ in found]),
        pool_B=np.array([pool for _, pool, _ in found]),
        roles=tuple(roles for _, _, roles in found),
        stored=stored,
    )

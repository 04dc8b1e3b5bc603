"""The index of folders of photographs: an SQLite file, and its search by similarity, class and tag.

All but the thumbnails is read into memory when an index is opened. The photographs themselves are
never opened. The number of a photograph is its place in the natural order of names.

A change of the file is a transaction: a process that is killed, or whose disk is full, leaves the
index before it or after it. A reader keeps its transaction, so it sees the index as it was when it
was opened. Anybody may have made the file. Its schema must be the one below, word by word, so it
has no views, triggers or functions; it is opened read-only, and what is read from it is checked.
"""

import hashlib
import os
import re
import sqlite3
import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import StorageError, UnwritableFile
from supdocnade.folders.tags import spell_tag
from supdocnade.images.decode import JPEG_START
from supdocnade.images.details import MAX_RATING
from supdocnade.text import fold_words
from supdocnade.threads import one_blas_thread

if TYPE_CHECKING:
    from supdocnade.scene.prediction import FittedScene

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

Given = tuple[str | None, list[str] | None, dict[str, bool]]
"""Class and tags that somebody has given to a photograph, None if none, and single tags that it has
or does not have."""
Order = Literal["match", "name", "newest", "oldest"]
State = Literal["unsure", "unfamiliar", "reviewed", "unreviewed"]

NAME, NEW_NAME = "supdocnade-index.sqlite", "supdocnade-index.partial"
SCHEMA = (
    "CREATE TABLE about (model TEXT)",
    "CREATE TABLE photographs (id INTEGER PRIMARY KEY, sort_key BLOB, path BLOB, words BLOB, "
    "size INTEGER, time INTEGER, topics BLOB, probabilities BLOB, unfamiliar INTEGER, taken BLOB, "
    "camera BLOB, rating INTEGER)",
    "CREATE TABLE pictures (id INTEGER PRIMARY KEY REFERENCES photographs ON DELETE CASCADE, "
    "picture BLOB)",
    "CREATE UNIQUE INDEX places ON photographs (sort_key, path)",
)
"""Sorted by names. Features and probabilities are rows of float32; texts are blobs, too.
`unfamiliar` is 0 or 1, and the last three are the `Details` of a photograph."""
TEXT = ("utf-8", "surrogatepass")
"""Encoding of texts, and its errors: the name of a file may be invalid Unicode."""

_FORMAT, _MAX_VALUE_BYTES, _WAIT_SECONDS = 6, 2**20, 60.0
_SETTINGS = (
    "PRAGMA page_size = 16384",
    "PRAGMA auto_vacuum = FULL",
    f"PRAGMA user_version = {_FORMAT}",
)
_INTEGERS = ("id", "size", "time", "unfamiliar", "rating")
_MAKE_AGAIN = "supdocnade index --replace makes it again"


@contextmanager
def database_errors(folder: Path) -> Iterator[None]:
    """Turn errors of SQLite, and errors about values in an index, into a `StorageError`."""
    path = folder / NAME
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise UnwritableFile(f"{path} cannot be written: {error.strerror}.") from error
    except sqlite3.OperationalError as error:  # The file may be intact.
        raise UnwritableFile(f"{path} cannot be read or written: {error}.") from error
    except (sqlite3.Error, LookupError, TypeError, ValueError, AttributeError) as error:
        raise StorageError(f"{path} is damaged: {error}; {_MAKE_AGAIN}.") from error


def open_index(folder: Path, model: str, *, write: bool = False) -> sqlite3.Connection:
    """Open the index of a model, and begin to read it; any other file raises `StorageError`."""
    path, journal = folder / NAME, folder / f"{NAME}-journal"
    if not path.exists():
        raise StorageError(f"{folder} is not an index of supdocnade: {NAME} is missing.")
    with database_errors(folder):
        if journal.exists():  # SQLite would change the file, and remove files that it names.
            raise ValueError(f"{journal.name} is not a part of an index")
        connection = _connect(path, "rw" if write else "ro")
        try:
            connection.execute("SELECT * FROM sqlite_schema LIMIT 1")
        except sqlite3.OperationalError:  # Without permission or room SQLite cannot make its log.
            connection.close()
            log = folder / f"{NAME}-wal"
            if write or (log.exists() and log.stat().st_size > 0):
                raise
            connection = _connect(path, "ro&immutable=1")
        try:
            connection.execute("BEGIN")
            ((version,),) = connection.execute("PRAGMA user_version")
            if version != _FORMAT:
                raise StorageError(
                    f"{folder} has format {version}, this version reads {_FORMAT}; {_MAKE_AGAIN}."
                )
            found = connection.execute("SELECT sql FROM sqlite_schema ORDER BY name LIMIT 9")
            if found.fetchall() != [(statement,) for statement in SCHEMA]:
                raise ValueError("its tables are not those of an index")
            if connection.execute("SELECT model FROM about LIMIT 2").fetchall() != [(model,)]:
                raise StorageError(f"{folder} was made with another model; {_MAKE_AGAIN}.")
        except BaseException:
            connection.close()
            raise
    return connection


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=_WAIT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")
    connection.execute("PRAGMA foreign_keys=ON")
    return connection


def read_photographs(
    connection: sqlite3.Connection, folder: Path, *columns: str
) -> Iterator[tuple[Any, ...]]:
    """Yield columns of all photographs, in the order of their names, after checking their types."""
    types = tuple(int if name in _INTEGERS else bytes for name in columns)
    left = sum(path.stat().st_size for path in folder.glob(f"{NAME}*"))
    query = f"SELECT {', '.join(columns)} FROM photographs ORDER BY sort_key, path"
    for row in connection.execute(query):
        if tuple(map(type, row)) != types:
            raise ValueError("a value has the wrong type")
        left -= 8 + sum(len(value) for value in row if isinstance(value, bytes))
        if left < 0:  # A forged file may repeat its pages.
            raise ValueError("its photographs are more than it can hold")
        yield row


def create_index(folder: Path, model: str) -> sqlite3.Connection:
    """Return a new index of a model, which `put_in_place` makes the index of the folder."""
    for path in folder.glob(f"{NEW_NAME}*"):
        path.unlink()
    connection = _connect(folder / NEW_NAME, "rwc")
    for statement in (*_SETTINGS, *SCHEMA):
        connection.execute(statement)
    connection.execute("INSERT INTO about VALUES (?)", (model,))
    return connection


def put_in_place(folder: Path, connection: sqlite3.Connection) -> sqlite3.Connection:
    """Replace the index of a folder by a new one; programs that read the old one keep it."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    for path in folder.glob(f"{NAME}-*"):  # They belong to the old index.
        path.unlink()
    os.replace(folder / NEW_NAME, folder / NAME)
    return _connect(folder / NAME, "rw")


class Gallery:
    """The index of folders of photographs.

    Attributes
    ----------
    classes, tag_names : of the model.
    threshold : a photograph has a tag if its probability is at least this.
    paths : paths or addresses of the photographs when they were indexed.
    names : their paths below the deepest folder that has them all.
    topics_NH : their topic features.
    unfamiliar_N : True for those unlike the training photographs.
    taken_N, cameras, rating_N : their `Details`.
    corrected : what somebody has given to photographs, by their numbers.
    version : part of the addresses of thumbnails, so that browsers do not show outdated ones.
    """

    def __init__(self, folder: Path, connection: sqlite3.Connection, fitted: "FittedScene"):
        self.classes, self.tag_names = fitted.classes, fitted.tag_names
        self.threshold, self._unsure_below = fitted.tag_threshold, fitted.choices.unsure_below
        self._folder, self._connection, self._lock = folder, connection, threading.Lock()
        weakref.finalize(self, connection.close)
        with database_errors(folder):
            self._read_photographs(fitted.network.config.n_topics)
        if not self.paths:
            raise StorageError(f"{folder} has no photographs yet; run supdocnade index again.")
        start = os.path.commonprefix(self.paths).rfind("/") + 1  # noqa: RUF071 (also addresses)
        self.names = [path[start:] for path in self.paths]
        self._numbers = {path: number for number, path in enumerate(self.paths)}

    def _read_photographs(self, n_topics: int) -> None:
        """Read everything but the thumbnails; an odd value raises `ValueError`."""
        version, topics, proba = hashlib.blake2b(digest_size=4), bytearray(), bytearray()
        self._ids, parts, self.paths = list[int](), list[bytes](), list[str]()
        unfamiliar, taken, cameras, ratings = list[int](), list[bytes](), list[str](), list[int]()
        columns = ("id", "time", "path", "words", "topics", "probabilities")
        more = ("unfamiliar", "taken", "camera", "rating")
        for row in read_photographs(self._connection, self._folder, *columns, *more):
            number, time, path, words, some_topics, some_proba, *details = row
            version.update(b"%d %d " % (number, time))
            topics += some_topics
            proba += some_proba
            self._ids.append(number)
            parts.append(words)
            self.paths.append(path.decode(*TEXT))
            unfamiliar.append(details[0])
            taken.append(details[1])
            cameras.append(details[2].decode(*TEXT))
            ratings.append(details[3])
        self.unfamiliar_N = np.array(unfamiliar, np.bool_)
        self.taken_N, self.cameras = np.array(taken, "S19"), cameras
        self.rating_N = np.clip(ratings, 0, MAX_RATING).astype(np.int8)
        self.version = version.hexdigest()
        self._words, self._word_ends = b"".join(parts), np.cumsum([len(each) for each in parts])
        n_classes, n_tags = len(self.classes), len(self.tag_names)
        topics_NH = np.frombuffer(topics, "<f4").reshape(len(self), n_topics)
        self.topics_NH = topics_NH.copy()  # Aligned.
        proba_NP = np.frombuffer(proba, "<f4").reshape(len(self), n_classes + n_tags)
        for values in (self.topics_NH, proba_NP):
            if values.size and not np.isfinite([values.min(), values.max()]).all():
                raise ValueError("features and probabilities must be finite")
        self._norm_N = np.einsum("nh,nh->n", self.topics_NH, self.topics_NH)
        self._presence_AN = proba_NP[:, n_classes:].T.copy()  # A search reads few tags.
        self._before: dict[int, tuple[int, float, NDArray[np.float32]]] = {}
        self.corrected: dict[int, Given] = {}
        self._predicted_N, self._proba_N = np.zeros(len(self), np.int64), np.ones(len(self))
        if n_classes:
            self._predicted_N = proba_NP[:, :n_classes].argmax(axis=1)
            self._proba_N = proba_NP[:, :n_classes].max(axis=1).astype(np.float64)

    def __len__(self) -> int:
        """Return the number of photographs."""
        return len(self.paths)

    @classmethod
    def load(cls, folder: str | Path, fitted: "FittedScene") -> "Gallery":
        """Open an index; a damaged one, or one of another model, raises `StorageError`.

        Everything is checked but the thumbnails, which are checked when they are read.
        """
        path = Path(folder)
        return cls(path, open_index(path, fitted.fingerprint()), fitted)

    def picture(self, number: int) -> bytes:
        """Return the thumbnail of a photograph, a JPEG file."""
        query = "SELECT picture FROM pictures WHERE id = ?"
        with self._lock, database_errors(self._folder):
            picture: bytes = self._connection.execute(query, (self._ids[number],)).fetchone()[0]
            if not picture.startswith(JPEG_START):
                raise ValueError("a thumbnail is not a JPEG file")
        return picture

    def nearest(
        self, topics_H: NDArray[np.float32], top: int, *, but: int | None = None
    ) -> list[tuple[int, float]]:
        """Return the photographs nearest in topic space, with their distances.

        Parameters
        ----------
        topics_H : topic features of the query.
        top : number of photographs.
        but : photograph to leave out, usually the query itself.
        """
        with one_blas_thread():  # There is a thread per question.
            near_N = self._norm_N - 2 * (self.topics_NH @ topics_H)
        n = 2 * top + 16  # Rounding of the product may change the order of the nearest.
        numbers = np.argpartition(near_N, n)[:n] if n < len(self) else np.arange(len(self))
        # A photograph is at distance 0 from itself.
        differences = self.topics_NH[numbers].astype(np.float64) - topics_H
        away = np.linalg.norm(differences, axis=1)
        order = np.lexsort((numbers, away))
        order = order[numbers[order] != (-1 if but is None else but)][:top]
        return list(zip(numbers[order].tolist(), away[order].tolist(), strict=True))

    def search(
        self,
        *,
        label: str | None = None,
        tags: Sequence[str] = (),
        words: str = "",
        min_probability: float | None = None,
        order: Order = "match",
        **details: Any,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the photographs that have all that is asked for, and the probability of each.

        It is the product of the probabilities of the class, the tags and the words.

        Parameters
        ----------
        label : predicted class or label, one of `classes`.
        tags : each one of `tag_names`.
        words : each is looked for in tags, in the predicted class and in the path.
        min_probability : least probability of a tag. By default, the threshold of the model.
        order : "match", the most probable photographs first, "name", or "newest" or "oldest",
            where those without a time are last.
        details : arguments of `with_details`.
        """
        least = self.threshold if min_probability is None else min_probability
        proba_N = self.with_details(**details).astype(np.float64)
        if label is not None:
            proba_N *= self._class_matches([self.classes.index(label)])
        for tag in tags:
            proba_N *= self._tag_matches([self.tag_names.index(tag)], least)
        for word in fold_words(words):
            proba_N *= self._word_matches(word, least)
        found = np.flatnonzero(proba_N)
        if order == "match":
            found = found[np.argsort(-proba_N[found], kind="stable")]
        elif order != "name":
            found = found[np.argsort(self.taken_N[found], kind="stable")]
            n_unknown = np.count_nonzero(self.taken_N[found] == b"")
            known = found[n_unknown:] if order == "oldest" else found[n_unknown:][::-1]
            found = np.concatenate([known, found[:n_unknown]])
        return found, proba_N[found]

    def with_details(
        self,
        *,
        since: str = "",
        until: str = "",
        camera: str | None = None,
        min_rating: int = 0,
        state: State | None = None,
    ) -> NDArray[np.bool_]:
        """Return True for the photographs that have all that is asked for, (N,).

        Parameters
        ----------
        since, until : first and last day on which they were taken, such as "2024-07-21".
        camera : one of `cameras`.
        min_rating : least number of stars.
        state : "unsure" or "unfamiliar" answers, or photographs that are "reviewed" or not yet.
        """
        kept_N = self.rating_N >= min_rating
        if since or until:
            day_N = self.taken_N.astype("S10")
            kept_N &= (day_N != b"") & (day_N >= since.encode())
            kept_N &= day_N <= (until or "9").encode()
        if camera is not None:
            kept_N &= np.array([each == camera for each in self.cameras])
        reviewed_N = np.zeros(len(self), np.bool_)
        reviewed_N[self.reviewed] = True
        if state in ("reviewed", "unreviewed"):
            kept_N &= reviewed_N == (state == "reviewed")
        elif state is not None:
            odd_N = self.unfamiliar_N
            if state == "unsure":
                odd_N = self._proba_N < self._unsure_below
            kept_N &= odd_N & ~reviewed_N
        return kept_N

    def is_unsure(self, number: int) -> bool:
        """Return whether the probability is so low that such answers were mostly wrong."""
        return bool(self._proba_N[number] < self._unsure_below)

    @property
    def reviewed(self) -> list[int]:
        """Numbers of the photographs to which somebody has given a class or tags."""
        found = self.corrected.items()
        return sorted(number for number, given in found if given[:2] != (None, None))

    def given(self, number: int) -> Given:
        """Return what somebody has given to a photograph."""
        return self.corrected.get(number, (None, None, {}))

    def correct(
        self,
        path: str,
        label: str | None,
        tags: Sequence[str] | None,
        judged: Mapping[str, bool] | None = None,
    ) -> None:
        """Let a class and tags count instead of the predicted ones, which count again if None.

        Without `tags`, single ones may be `judged`: the photograph has them or does not have them.
        A class and tags that the model does not know are found by their words. A photograph of
        another folder is ignored.
        """
        number = self._numbers.get(path)
        if number is None:
            return
        now = self._predicted_N[number], self._proba_N[number], self._presence_AN[:, number].copy()
        before = self._before.setdefault(number, now)
        self._predicted_N[number], self._proba_N[number], self._presence_AN[:, number] = before
        if label is not None:
            self._predicted_N[number] = [*self.classes, label].index(label)
            self._proba_N[number] = 1
        own = None if tags is None else [spell_tag(tag, self.tag_names) for tag in tags]
        if own is not None:
            self._presence_AN[:, number] = [name in own for name in self.tag_names]
        single = {spell_tag(tag, self.tag_names): has for tag, has in (judged or {}).items()}
        for tag in single.keys() & {*self.tag_names}:
            self._presence_AN[self.tag_names.index(tag), number] = single[tag]
        self.corrected[number] = label, own, single
        if (label, own, single) == (None, None, {}):
            del self.corrected[number]
        self.__dict__.pop("_tag_counts", None)

    def _class_matches(self, classes: Sequence[int]) -> Floats:
        """Return the probability of the predicted class, 0 if it is not one of these."""
        return np.where(np.isin(self._predicted_N, classes), self._proba_N, 0.0)

    def _word_matches(self, word: str, least: float) -> Floats:
        """Return the probability of a word: of the class or the tags that have it, or 1."""
        matches_N = self._class_matches(_having_word(self.classes, word))
        tag_matches_N = self._tag_matches(_having_word(self.tag_names, word), least)
        np.maximum(matches_N, tag_matches_N, out=matches_N)
        # A word of the path; it has letters and digits alone.
        starts = [each.start() for each in re.finditer(f" {word}".encode(), self._words)]
        matches_N[np.searchsorted(self._word_ends, starts, "right")] = 1
        for number, (new_class, new_tags, judged) in self.corrected.items():
            if _having_word([new_class or "", *(new_tags or ()), *_present(judged)], word):
                matches_N[number] = 1
        return matches_N

    def _tag_matches(self, tags: Sequence[int], least: float) -> Floats:
        """Return the largest probability of some tags, 0 if it is less than it must be."""
        proba_N = self._presence_AN[list(tags)].max(axis=0, initial=0.0)
        return np.where(proba_N >= least, proba_N.astype(np.float64), 0.0)

    def count_tags(self, numbers: Int64s) -> list[tuple[str, int]]:
        """Return the tags of some photographs with their numbers, the most frequent first."""
        counts_A = self._tag_counts
        if len(numbers) < len(self):
            counts_A = self._count_tags(np.sort(numbers))
        return _rank_counts(counts_A, self.tag_names)

    @cached_property
    def _tag_counts(self) -> Int64s:
        return self._count_tags(slice(None))

    def _count_tags(self, numbers: Int64s | slice) -> Int64s:
        columns = (presence_N[numbers] for presence_N in self._presence_AN)
        return np.array([np.count_nonzero(each >= self.threshold) for each in columns], np.int64)

    def count_classes(self, numbers: Int64s) -> list[tuple[str, int]]:
        """Return the predicted classes of some photographs with their numbers."""
        counts_C = np.bincount(self._predicted_N[numbers], minlength=len(self.classes))
        counts_C = counts_C[: len(self.classes)]  # Without classes that the model does not know.
        return _rank_counts(counts_C, self.classes)

    def count_cameras(self, numbers: Int64s) -> list[tuple[str, int]]:
        """Return the cameras of some photographs with their numbers, the most frequent first."""
        return Counter(filter(None, map(self.cameras.__getitem__, numbers.tolist()))).most_common()

    def label(self, number: int) -> tuple[str, float] | None:
        """Return the best class and its probability; None if there is no class."""
        new_class, *_ = self.given(number)
        if new_class is not None:
            return new_class, 1.0
        if not self.classes:
            return None
        return self.classes[self._predicted_N[number]], float(self._proba_N[number])

    def tags(self, number: int) -> list[tuple[str, float]]:
        """Return the tags of a photograph, the most probable first."""
        _, new_tags, judged = self.given(number)
        if new_tags is not None:
            return [(tag, 1.0) for tag in new_tags]
        proba_A = self._presence_AN[:, number]
        order = np.argsort(-proba_A, kind="stable")
        given = order[proba_A[order] >= self.threshold].tolist()
        unknown = [(tag, 1.0) for tag in _present(judged) if tag not in self.tag_names]
        return [*unknown, *((self.tag_names[tag], float(proba_A[tag])) for tag in given)]


def _present(judged: Mapping[str, bool]) -> list[str]:
    return [tag for tag, has in judged.items() if has]


def _having_word(names: Sequence[str], word: str) -> list[int]:
    """Return the numbers of the names that have a word, or else of those with a word it begins."""
    parts = [fold_words(name) for name in names]
    whole = [number for number, each in enumerate(parts) if word in each]
    longer = (n for n, each in enumerate(parts) if any(part.startswith(word) for part in each))
    return whole or list(longer)


def _rank_counts(counts: NDArray[np.integer], names: Sequence[str]) -> list[tuple[str, int]]:
    order = np.argsort(-counts, kind="stable").tolist()
    return [(names[number], int(counts[number])) for number in order if counts[number]]

"""What an index holds of photographs, one row each."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import InvalidArgument
from supdocnade.scene.fitted import FittedScene
from supdocnade.shapes import check_shape
from supdocnade.storage import Arrays

Floats = NDArray[np.float32]


def model_fingerprint(fitted: FittedScene) -> str:
    """Return a digest of everything that decides what a model says of a photograph."""
    digest = hashlib.blake2b(fitted.bag.encoder_.fingerprint().encode(), digest_size=16)
    network = fitted.topics.network_
    settings = (fitted.settings.damping, network.config, fitted.classes, fitted.tag_names)
    digest.update(repr((settings, fitted.choices)).encode())
    arrays = [tensor.detach().cpu().numpy() for tensor in network.state_dict().values()]
    if fitted.svm is not None:
        svm = fitted.svm
        arrays += [svm.mean_H, svm.scale_H, svm.support_SH, svm.coefficient_CS, svm.intercept_C]
        digest.update(repr(svm.gamma).encode())
    for array in (*arrays, fitted.tag_frequency_A):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """Some photographs, without their pictures."""

    names: tuple[str, ...]
    """Paths below the folder, with slashes."""
    stamps_N2: NDArray[np.int64]
    """Size of the file and time of its last change: whether it is still the same one."""
    topics_NH: Floats
    proba_NC: Floats
    """Probabilities of the classes."""
    presence_NA: Floats
    """Probabilities that the tags are there."""
    lengths_N: NDArray[np.int64]
    """Bytes of the small copies."""

    def __len__(self) -> int:
        """The number of photographs."""
        return len(self.names)

    def take(self, chosen: Sequence[int]) -> "Rows":
        """Return some of them."""
        rows = np.array(chosen, np.int64)
        return Rows(
            names=tuple(self.names[row] for row in chosen),
            **{name: getattr(self, name)[rows] for name in _ARRAYS},
        )

    @staticmethod
    def joined(parts: Sequence["Rows"]) -> "Rows":
        """Return those of several parts, at least one, one after the other."""
        return Rows(
            names=tuple(name for part in parts for name in part.names),
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS},
        )

    def arrays(self) -> Arrays:
        """Return all arrays by their names, to be stored."""
        return {name: getattr(self, name) for name in _ARRAYS}

    @classmethod
    def restored(cls, arrays: Arrays, names: Any, fitted: FittedScene) -> "Rows":
        """Return what was stored, or raise `InvalidArgument`."""
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InvalidArgument("its photographs have odd names")
        n, n_topics = len(names), fitted.topics.network_.config.n_topics
        shapes = {
            "stamps_N2": (n, 2),
            "topics_NH": (n, n_topics),
            "proba_NC": (n, len(fitted.classes)),
            "presence_NA": (n, len(fitted.tag_names)),
            "lengths_N": (n,),
        }
        for name, shape in shapes.items():
            check_shape(name, arrays[name].shape, shape)
        for name in ("topics_NH", "proba_NC", "presence_NA"):
            if not np.isfinite(arrays[name]).all():
                raise InvalidArgument(f"{name} must be finite")
        if len(set(names)) < n or (arrays["lengths_N"] <= 0).any():
            raise InvalidArgument("its photographs are there twice, or without a picture")
        return cls(names=tuple(names), **{name: arrays[name] for name in _ARRAYS})


_ARRAYS = ("stamps_N2", "topics_NH", "proba_NC", "presence_NA", "lengths_N")

"""Features of images by a pretrained network, an ONNX file that onnxruntime runs.

A network maps an image of side × side pixels to one or several feature maps. A map is an output of
shape (1, channels, rows, columns), or tokens of patches, (1, patches, channels), which may follow
class tokens. A JSON file of the same stem beside the ONNX file holds its `NetworkDescription`.

Suffixes of shapes: H height, W width, P patches, T class tokens and patches, D channels.
"""

import contextlib
import hashlib
import json
import math
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from supdocnade.checks import check_choice, check_range, check_settings, setting
from supdocnade.errors import (
    BackendUnavailable,
    InvalidArgument,
    StorageError,
    UnwritableFile,
    install_command,
)
from supdocnade.runs import DEVICES
from supdocnade.schema import from_json
from supdocnade.text import read_file, read_text

MAX_NETWORK_BYTES = 2**32
"""Largest ONNX file; protobuf itself allows half of it."""

_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
# Full float32, and a choice of algorithms that does not depend on measured times.
_CUDA_OPTIONS = {"use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC"}

_sessions: dict[tuple[Path, str, str], Any] = {}
"""Sessions by path, digest and provider. They cannot be pickled, so networks do not hold them."""
_sessions_lock = threading.Lock()

MAX_INPUT_SIDE = 2048
"""Largest side of an input image, in pixels."""

_NAME = re.compile(r"(?!.*\.onnx$)[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, kw_only=True)
class NetworkDescription:
    """Preparation of the pixels for a network, and meaning of its output."""

    name: str
    """Letters, digits, dots, hyphens and underscores."""
    side: int = setting(least=1)
    """Width and height of an input image, in pixels."""
    mean: float | tuple[float, ...]
    """The input is (level − mean) / scale, of levels from 0 to 255: one number, or one for each
    channel, in the order of the network's channels."""
    scale: float | tuple[float, ...]
    """Above 0; see `mean`."""
    licence: str = "unknown"
    """Name of the licence of the weights."""
    outputs: tuple[str, ...] | None = None
    """Names of the outputs to take, the output for visual words first. By default, the only one."""
    class_tokens: int = setting(0, least=0)
    """Number of tokens before the tokens of patches. The first of them describes the image."""
    digest: str | None = None
    """Digest of the file, if it was recorded."""

    def __post_init__(self) -> None:
        if not is_network_name(self.name):
            raise InvalidArgument(
                "name must consist of letters, digits, dots, hyphens and underscores, and must "
                f"not end in .onnx, got {self.name!r}."
            )
        check_settings(self)
        if self.side > MAX_INPUT_SIDE:
            raise InvalidArgument(f"side must be at most {MAX_INPUT_SIDE}, got {self.side}.")
        for name in ("mean", "scale"):
            object.__setattr__(self, name, _check_levels(name, getattr(self, name)))
        if self.outputs is not None and len({*self.outputs}) < max(len(self.outputs), 1):
            raise InvalidArgument(
                f"outputs must be a list of different names, got {self.outputs!r}."
            )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the description of a network from the JSON file beside it.

        Parameters
        ----------
        path : of the ONNX file.
        """
        path = path.with_suffix(".json")
        if not path.exists():
            raise StorageError(f"{path} is missing: it must describe the network beside it.")
        text = read_text(path)
        defaults = {each.name: each.default for each in fields(cls) if each.default is not MISSING}
        try:
            return from_json(cls, {**defaults, **json.loads(text)})
        except (ValueError, TypeError, RecursionError) as error:
            raise StorageError(f"{path} does not describe a network: {error}") from error

    def write(self, path: Path) -> None:
        """Write the description to the JSON file beside an ONNX file."""
        values = {name: value for name, value in asdict(self).items() if value is not None}
        path.with_suffix(".json").write_text(f"{json.dumps(values, indent=2)}\n", "utf-8")


def is_network_name(name: str) -> bool:
    """Return whether a text can be the name of a network; a path cannot.

    >>> [is_network_name(each) for each in ("dinov2", "dinov2.onnx", "../dinov2")]
    [True, False, False]
    """
    return _NAME.fullmatch(name) is not None


def _check_levels(name: str, value: Any) -> tuple[float, ...]:
    """Return a mean or a scale as one number for each channel."""
    levels = [value] * 3 if not isinstance(value, list | tuple) else value
    if len(levels) != 3:
        raise InvalidArgument(f"{name} must be one number or three, got {len(levels)}.")
    above = 0 if name == "scale" else None
    return tuple(check_range(name, level, above=above) for level in levels)


class FeatureMap(NamedTuple):
    """Features of the patches of an image, and of the image as a whole."""

    grid: tuple[int, int]
    """Rows and columns of patches."""
    patches_PD: NDArray[np.float32]
    """(rows · columns, channels), row by row."""
    image_D: NDArray[np.float32]
    """The first class token, or the mean over the patches if there is none."""


@dataclass(frozen=True)
class FeatureNetwork:
    """A network that describes the patches of an image and the image as a whole.

    It can be pickled and used by several threads at the same time.
    """

    path: Path
    """Absolute path of the ONNX file."""
    description: NetworkDescription
    digest: str
    """Digest of the file."""
    shapes: tuple[tuple[int, int, int], ...]
    """Rows, columns and channels of each map."""

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, fingerprint: str | None = None) -> Self:
        """Read a network and run it once on a test image.

        Parameters
        ----------
        path : of the ONNX file, beside which the JSON file lies that describes it.
        fingerprint : of the network that is expected. Another network is not run.

        Raises
        ------
        InvalidArgument : onnxruntime is not installed, or the fingerprint is another one.
        StorageError : a file is missing or damaged, or is not the network that is described.
        """
        _import_onnxruntime()
        path = Path(os.path.abspath(path))
        content = _read_network(path)
        description = NetworkDescription.read(path)
        digest = _digest(content)
        if description.digest not in (None, digest):
            raise StorageError(f"{path} is damaged: its contents are not those that were written.")
        if fingerprint not in (None, _fingerprint(digest, description)):
            raise InvalidArgument(
                f"the network {description.name!r} must be the one that the words were learned "
                "with, got another one of this name."
            )
        session = _get_session(path, digest, "cpu", content)
        n_levels = 3 * description.side**2
        image = np.arange(n_levels).astype(np.uint8).reshape(description.side, description.side, 3)
        try:
            maps = _describe(path, session, description, image)
        except StorageError:
            raise
        except Exception as error:  # Those of onnxruntime have no common class but this one.
            raise _damaged(path, error) from error
        shapes = tuple((*each.grid, len(each.image_D)) for each in maps)
        return cls(path, description, digest, shapes)

    @property
    def name(self) -> str:
        """Name of the network."""
        return self.description.name

    def fingerprint(self) -> str:
        """Return a digest of everything that decides the features: file and description."""
        return _fingerprint(self.digest, self.description)

    def describe(
        self, pixels: NDArray[np.uint8], *, device: str = "auto"
    ) -> tuple[FeatureMap, ...]:
        """Return the maps of an image, in the order of the description.

        The image is resized to side × side, whatever its shape. It runs alone, so its features do
        not depend on other images.

        Parameters
        ----------
        pixels : (height, width, 3) colours in RGB, or (height, width) grey levels.
        device : "cpu", "cuda", or "auto", which takes the GPU if onnxruntime supports it.
        """
        session = _get_session(self.path, self.digest, device)
        return _describe(self.path, session, self.description, pixels)


def write_network(folder: Path, content: bytes, description: NetworkDescription) -> None:
    """Write a network to a new folder, which appears when it is complete."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as temporary:
            path = Path(temporary, folder.name, f"{description.name}.onnx")
            path.parent.mkdir()
            path.write_bytes(content)
            replace(description, digest=_digest(content)).write(path)
            os.rename(path.parent, folder)
    except OSError as error:
        raise UnwritableFile(f"{folder} cannot be written: {error.strerror}.") from error


def missing_package(what: str) -> InvalidArgument:
    """Return the error about a package of the extra `deep`, which starts with the words given."""
    return InvalidArgument(f"{what} is not installed; {install_command('deep')}.")


def _import_onnxruntime() -> Any:
    # Since release 1.29 it reports every process and network to its makers, unless this is set.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        import onnxruntime
    except ImportError as error:
        raise missing_package("onnxruntime, which runs networks,") from error
    onnxruntime.disable_telemetry_events()  # If another module had imported it before.
    return onnxruntime


def _read_network(path: Path) -> bytes:
    """Return the contents of an ONNX file; one with weights in other files is refused."""
    content = read_file(path, most=MAX_NETWORK_BYTES)
    # Tensors in other files have an entry of this name; if it is missing, parsing can be spared.
    if b"location" not in content:
        return content
    try:
        import onnx
    except ImportError as error:
        raise missing_package(f"onnx, which reads {path},") from error
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:
        raise _damaged(path, error) from error
    for location in _find_locations(model):
        raise StorageError(
            f"{path} has weights in {location!r}; onnx.save(onnx.load(FILE), FILE) makes it one "
            "file."
        )
    return content


def _find_locations(message: Any) -> Iterator[str]:
    """Yield the names of the files with tensors of a protobuf message, at any depth."""
    for field, value in message.ListFields():
        if field.name == "external_data":
            yield from (entry.value for entry in value if entry.key == "location")
        elif field.message_type is not None:
            for part in [value] if hasattr(value, "ListFields") else value:
                yield from _find_locations(part)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=20).hexdigest()


def _fingerprint(digest: str, description: NetworkDescription) -> str:
    values = asdict(description)
    for name in ("name", "licence", "digest"):
        del values[name]
    return _digest(json.dumps([digest, values]).encode())


def _get_session(path: Path, digest: str, device: str, content: bytes | None = None) -> Any:
    """Return the session of a network, one for all threads.

    Parameters
    ----------
    content : of the file, if it was read already.
    """
    provider = _choose_provider(device)
    key = (path, digest, provider)
    with _sessions_lock:
        if key not in _sessions:
            if content is None:
                content = _read_network(path)
                if _digest(content) != digest:
                    raise StorageError(f"{path} has changed since it was loaded.")
            session = _start_session(path, content, provider)
            if device == "cuda" and _CUDA not in session.get_providers():
                raise BackendUnavailable(
                    "device 'cuda' is not available: onnxruntime finds no GPU on this machine; "
                    "'auto' takes the CPU here."
                )
            _sessions[key] = session
        return _sessions[key]


def _choose_provider(device: str) -> str:
    check_choice("device", device, DEVICES)
    if device != "cpu" and _CUDA in _import_onnxruntime().get_available_providers():
        return _CUDA
    if device == "cuda":
        raise BackendUnavailable(
            "device 'cuda' is not available: networks need onnxruntime-gpu there; "
            "'auto' takes the CPU here."
        )
    return _CPU


def _start_session(path: Path, content: bytes, provider: str) -> Any:
    """Return a session that computes on the caller's thread."""
    onnxruntime = _import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 4  # Errors are raised.
    if provider == _CUDA:
        with contextlib.redirect_stdout(None):  # It prints what it does not find.
            onnxruntime.preload_dlls()  # CUDA and cuDNN, from the packages that torch needs, too.
    providers = [(_CUDA, _CUDA_OPTIONS), _CPU] if provider == _CUDA else [_CPU]
    try:
        return onnxruntime.InferenceSession(content, options, providers)
    except Exception as error:  # Its errors have no common class but this one.
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> StorageError:
    reason = " ".join(str(error).split()).rstrip(".")
    return StorageError(f"{path} is damaged, or no network that can be run: {reason}.")


def _describe(
    path: Path, session: Any, description: NetworkDescription, pixels: NDArray[np.uint8]
) -> tuple[FeatureMap, ...]:
    """Run a network on one image and return its maps.

    A network that was loaded can run, so a failure here is about the image.
    """
    feed = {session.get_inputs()[0].name: _prepare(pixels, description)}
    found = session.run(description.outputs, feed)
    if description.outputs is None and len(found) > 1:
        names = ", ".join(repr(each.name) for each in session.get_outputs())
        raise StorageError(f"{path} has the outputs {names}; its description must name some.")
    return tuple(_arrange(path, np.asarray(each), description) for each in found)


def _prepare(pixels: NDArray[np.uint8], description: NetworkDescription) -> NDArray[np.float32]:
    """Return the input of a network, (1, 3, side, side)."""
    image = Image.fromarray(np.ascontiguousarray(pixels)).convert("RGB")
    size = (description.side, description.side)
    if image.size != size:
        # Averages over boxes first, which is much faster for large photographs.
        image = image.resize(size, Image.Resampling.BICUBIC, reducing_gap=3.0)
    levels_HW3 = np.asarray(image)
    inputs = np.empty((1, 3, *size), np.float32)
    mean_3, scale_3 = (np.array(each, np.float32) for each in (description.mean, description.scale))
    for channel in range(3):
        np.subtract(levels_HW3[..., channel], mean_3[channel], out=inputs[0, channel])
        inputs[0, channel] /= scale_3[channel]
    return inputs


def _arrange(path: Path, output: NDArray[Any], description: NetworkDescription) -> FeatureMap:
    """Return the map that an output is."""
    if output.ndim not in (3, 4) or len(output) != 1 or 0 in output.shape:
        raise StorageError(
            f"{path} must give an output of shape (1, channels, rows, columns) or "
            f"(1, patches, channels), got {output.shape}."
        )
    n_tokens = description.class_tokens
    if output.ndim == 4:
        if n_tokens:
            raise StorageError(f"{path} gives a feature map, which has no class tokens.")
        _, n_channels, *grid = output.shape
        features_TD = output[0].reshape(n_channels, -1).T
    else:
        features_TD = output[0]
        grid = [math.isqrt(max(len(features_TD) - n_tokens, 0))] * 2
    n_patches = len(features_TD) - n_tokens
    if n_patches <= 0 or math.prod(grid) != n_patches:
        raise StorageError(
            f"{path} gives {len(features_TD)} vectors, {n_tokens} of them class tokens by its "
            "description; the others must be patches that form a square."
        )
    if not np.isfinite(features_TD).all():
        raise FloatingPointError(f"{path} gives features that are not finite.")
    patches_PD = np.ascontiguousarray(features_TD[n_tokens:], np.float32)
    image_D = features_TD[0] if n_tokens else patches_PD.mean(axis=0)
    return FeatureMap((grid[0], grid[1]), patches_PD, image_D.astype(np.float32))

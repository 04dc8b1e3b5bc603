"""From an image, in whatever form it comes, to an array of grey levels or colours.

There is one path, the same for training and prediction: libraries differ by several grey levels in
how they decode, and visual words differ with them. Pillow decodes; the rotation that a camera noted
is applied; transparent parts are put on white; sixteen bits become eight by their upper half;
colours become grey by the weights of ITU-R 601, which in a JPEG file are those of its own
luminance: where grey is wanted, only that is decoded. The longest side is brought to `max_side`.
"""

import io
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from supdocnade.checks import check_choice, check_count
from supdocnade.errors import InvalidArgument, UnreadableImage
from supdocnade.storage import write_atomically

FORMATS: tuple[str, ...] = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF", "AVIF")
"""What is decoded. Pillow knows many more; each is code that a hostile file could reach."""

MAX_PIXELS = 100_000_000
"""Of a file as it says of itself, before anything is decoded: 300 MB of colours."""

MAX_SIDE = 10_000
"""Of an image that is resized."""

_HEIC_BRANDS = {b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1"}

_SIXTEEN_BITS = ("I;16", "I;16L", "I;16B", "I;16N")


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """How images are read; a part of every model that was trained on them."""

    max_side: int | None = None
    """The longest side becomes exactly so many pixels; None: images stay as they are."""
    upscale: bool = True
    """Whether images smaller than `max_side` are enlarged."""
    color: bool = False
    """Whether to keep three colour channels."""

    def __post_init__(self) -> None:
        if self.max_side is not None and check_count("max_side", self.max_side, least=1) > MAX_SIDE:
            raise InvalidArgument(f"max_side must be at most {MAX_SIDE}, got {self.max_side}.")
        for name in ("upscale", "color"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidArgument(f"{name} must be true or false, got {getattr(self, name)!r}.")


def decode(source: Any, config: DecodeConfig | None = None, *, name: str = "") -> NDArray[np.uint8]:
    """Return an image as (height, width) grey levels, or (height, width, 3) colours, uint8.

    Parameters
    ----------
    source : a path, the bytes of a file, a PIL image, or an array: (height, width) or
        (height, width, 1 | 3 | 4) of uint8, of uint16, or of floats in [0, 1].
    config : size and colours.
    name : what to call the image in an error; a path is called by itself.

    Raises
    ------
    UnreadableImage : the file is missing, empty, cut off, no image, or too large.
    """
    config = config or DecodeConfig()
    if isinstance(source, np.ndarray):
        return _finish(_from_array(np.asarray(source), name or "the array"), config)
    if isinstance(source, Image.Image):
        return _finish(_load(source, name or "the image"), config)
    if isinstance(source, bytes | bytearray | memoryview):
        content, name = bytes(source), name or "the image"
    elif isinstance(source, str | os.PathLike):
        name = name or os.fspath(source)
        content = read_image_file(source, name)
    else:
        raise InvalidArgument(
            f"an image must be a path, bytes, an array or a PIL image, got {type(source).__name__}."
        )
    return _finish(_from_bytes(content, name, grey=not config.color), config)


def read_image_file(path: str | os.PathLike[str], name: str = "") -> bytes:
    """Return the contents of a file that should be an image."""
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnreadableImage(f"{name or os.fspath(path)} cannot be read: {reason}.") from error


def image_size(content: bytes, name: str = "the image") -> tuple[int, int]:
    """Return the width and height that a file says it has; nothing is decoded for it.

    Parameters
    ----------
    content : of a file.
    name : what to call the image in an error.
    """
    with _open(content, name) as image:
        return image.size


def _from_bytes(content: bytes, name: str, *, grey: bool) -> Image.Image:
    """Decode a file; whatever is wrong with it becomes one sentence."""
    with _open(content, name) as image:
        if grey and image.format == "JPEG" and image.mode == "RGB":
            image.draft("L", image.size)
        return _load(image, name)


def _open(content: bytes, name: str) -> Image.Image:
    """Read what a file says of itself, before its pixels."""
    if not content:
        raise UnreadableImage(f"{name} is empty.")
    formats = (*FORMATS, "HEIF") if _is_heic(content, name) else FORMATS
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Of many pixels, which `_load` refuses.
            return Image.open(io.BytesIO(content), formats=formats)
    except UnidentifiedImageError as error:
        raise UnreadableImage(f"{name} is no image of a known format.") from error
    except Image.DecompressionBombError as error:
        raise UnreadableImage(f"{name} has too many pixels to be read.") from error
    except Exception as error:
        raise _damaged(name, error) from error


def _load(image: Image.Image, name: str) -> Image.Image:
    """Return the pixels of an opened image upright and in mode L or RGB."""
    width, height = image.size
    if not 0 < width * height <= MAX_PIXELS:
        raise UnreadableImage(
            f"{name} has {width} × {height} pixels, 1 to {MAX_PIXELS} of them are read."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Of odd metadata, which does not matter here.
            image.load()
            return _flatten(_upright(image), name, image.format)
    except UnreadableImage:
        raise
    except Exception as error:
        # Pillow's decoders raise whatever a damaged file makes them trip over.
        raise _damaged(name, error) from error


def _damaged(name: str, error: Exception) -> UnreadableImage:
    reason = str(error).rstrip(".") or type(error).__name__
    return UnreadableImage(f"{name} is damaged: {reason}.")


def _upright(image: Image.Image) -> Image.Image:
    """Turn an image as its camera noted; a note that cannot be read turns nothing."""
    try:
        return ImageOps.exif_transpose(image)
    except Exception:
        return image


def _is_heic(content: bytes, name: str) -> bool:
    """Whether a file is HEIC, which then must have its decoder; AVIF has the same frame."""
    if content[4:8] != b"ftyp":
        return False
    length = min(int.from_bytes(content[:4], "big"), len(content), 256)
    brands = {content[8:12], *(content[i : i + 4] for i in range(16, length, 4))}
    if b"avif" in brands or b"avis" in brands or not brands & _HEIC_BRANDS:
        return False
    _register_heic(name)
    return True


def _register_heic(name: str) -> None:
    try:
        import pillow_heif  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise UnreadableImage(
            f"{name} is a HEIC image, which needs an extra: pip install 'supdocnade[heic]'."
        ) from error
    pillow_heif.register_heif_opener()


def _flatten(image: Image.Image, name: str, file_format: str | None = None) -> Image.Image:
    """Return an image in mode L or RGB: eight bits, no palette, no transparency."""
    if image.mode in _SIXTEEN_BITS:
        return _upper_bits(np.asarray(image).astype(np.uint16), image.info.get("transparency"))
    if image.mode == "I" and file_format in (None, "PNG"):
        # Pillow's older name for sixteen bits of grey; from a TIFF it has 32, of unknown range.
        levels = np.asarray(image)
        if levels.min() >= 0 and levels.max() <= 65535:
            return _upper_bits(levels.astype(np.uint16), image.info.get("transparency"))
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        grey = image.mode in ("L", "LA", "La", "1")
        whole = {"La": "LA", "RGBa": "RGBA"}.get(image.mode, image.mode)
        colors = image.convert(whole).convert("RGBA")
        white = Image.new("RGBA", colors.size, "white")
        return Image.alpha_composite(white, colors).convert("L" if grey else "RGB")
    if image.mode in ("L", "RGB"):
        return image
    if image.mode == "1":
        return image.convert("L")
    if image.mode in ("P", "CMYK", "YCbCr", "LAB", "HSV", "RGBX"):
        return image.convert("RGB")
    raise UnreadableImage(f"{name} has pixels of Pillow's mode {image.mode!r}, which are not read.")


def _upper_bits(levels: NDArray[np.uint16], transparent: object) -> Image.Image:
    """Return the upper half of sixteen bits, one level of them shown as white."""
    grey = (levels >> 8).astype(np.uint8)
    if isinstance(transparent, int):
        grey[levels == transparent] = 255
    return Image.fromarray(grey)


def _from_array(given: NDArray[Any], name: str) -> Image.Image:
    shape, channels = given.shape, given.shape[2] if given.ndim == 3 else 1
    if given.ndim not in (2, 3) or channels not in (1, 3, 4) or 0 in shape:
        raise UnreadableImage(
            f"{name} must have shape (height, width) or (height, width, 1, 3 or 4), got {shape}."
        )
    if given.dtype.kind == "u" and given.dtype.itemsize == 2:
        levels = (given >> 8).astype(np.uint8)
    elif given.dtype.kind == "f":
        if not (given.min() >= 0 and given.max() <= 1):  # NaN fails, too.
            raise UnreadableImage(
                f"{name} must lie within [0, 1] as floats, got {given.min():g} .. {given.max():g}."
            )
        levels = np.round(given * 255).astype(np.uint8)
    elif given.dtype in (np.uint8, np.bool_):
        levels = given.astype(np.uint8) * (255 if given.dtype == np.bool_ else 1)
    else:
        raise UnreadableImage(f"{name} must be uint8, uint16, bool or floats, got {given.dtype}.")
    if given.ndim == 3 and channels == 1:
        levels = levels[..., 0]
    return _flatten(Image.fromarray(np.ascontiguousarray(levels)), name)


def _finish(image: Image.Image, config: DecodeConfig) -> NDArray[np.uint8]:
    """Bring an image to its size and its channels."""
    image = image.convert("RGB" if config.color else "L")
    longest = max(image.size)
    wanted = config.max_side
    if wanted is not None and longest != wanted and (config.upscale or longest > wanted):
        # The longest side becomes exactly `max_side`; the other is rounded, at least one pixel.
        width, height = (max(round(side * wanted / longest), 1) for side in image.size)
        image = image.resize((width, height), Image.Resampling.LANCZOS)
    return np.asarray(image)


# From arrays to image files, the same bytes for the same array.

KINDS: dict[str, str] = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG"}
"""What is written, by the ending of a file's name."""


def encode(image: NDArray[np.uint8], kind: str = "PNG", *, quality: int = 92) -> bytes:
    """Return the file of an image.

    Parameters
    ----------
    image : (height, width) grey levels or (height, width, 3) colours.
    kind : "PNG", which keeps every level, or "JPEG".
    quality : of a JPEG, 1 to 100.
    """
    check_choice("kind", kind, ("JPEG", "PNG"))
    if check_count("quality", quality, least=1) > 100:
        raise InvalidArgument(f"quality must be at most 100, got {quality}.")
    fits = image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 3)
    if not fits or image.dtype != np.uint8 or 0 in image.shape:
        raise InvalidArgument(
            "image must be uint8 of shape (height, width) or (height, width, 3), "
            f"got {image.dtype} of shape {image.shape}."
        )
    buffer = io.BytesIO()
    picture = Image.fromarray(np.ascontiguousarray(image))
    if kind == "JPEG":
        # Colours at full resolution: a print has fine lines of one lightness.
        picture.save(buffer, "JPEG", quality=quality, subsampling=0)
    else:
        picture.save(buffer, "PNG", compress_level=6)
    return buffer.getvalue()


def make_thumbnail(source: Any, max_side: int, quality: int, name: str = "") -> bytes:
    """Return a small copy of an image as a JPEG file.

    Parameters
    ----------
    source, name : as for `decode`.
    max_side : longest side of the copy in pixels; smaller images keep their size.
    quality : JPEG quality.
    """
    config = DecodeConfig(max_side=max_side, upscale=False, color=True)
    return encode(decode(source, config, name=name), "JPEG", quality=quality)


def write_image(path: Path, image: NDArray[np.uint8], *, quality: int = 92) -> None:
    """Write an image to a file, as JPEG or PNG by the ending of its name, whole or not at all."""
    check_choice("the ending of a file's name", path.suffix.lower(), tuple(KINDS))
    write_atomically(path, encode(image, KINDS[path.suffix.lower()], quality=quality))

"""Decoding of image files, arrays and PIL images to arrays of pixels, and writing of image files.

Training and prediction decode in the same way, because libraries differ by several grey levels and
visual words differ with them. Pillow decodes; the rotation in the EXIF data is applied; transparent
parts are put on white; 16 bits per level become the upper 8; colours become grey by the weights of
ITU-R 601. These are the weights of the luminance in a JPEG file, so that if grey levels are needed,
only the luminance is decoded. A JPEG file of more than 100 megapixels is decoded at a reduced size.
Of a RAW file, the preview is decoded. Finally the longest side is resized to `max_side`.
"""

import io
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps, IptcImagePlugin, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile

from supdocnade.checks import check_choice, check_count
from supdocnade.errors import InvalidArgument, StorageError, UnreadableImage, install_command
from supdocnade.images.raw_preview import as_image_file
from supdocnade.images.source import Source, is_source, open_address, read_source, source_name
from supdocnade.storage import write_atomically

FORMATS: tuple[str, ...] = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF", "AVIF")
"""Formats that are decoded. Pillow has many more; each is code that a hostile file could reach."""

MAX_PIXELS = 100_000_000
"""Largest number of pixels that is decoded: 300 MB in colour."""

MAX_JPEG_PIXELS = 500_000_000
"""Largest JPEG file. Above `MAX_PIXELS` it is decoded at 1/2, 1/4 or 1/8 of its size; if it is
progressive, the decoder holds 3 to 6 bytes per pixel."""

MAX_JPEG_SCANS = 100
"""Largest number of scans in a JPEG file. Each is a pass over all pixels. Cameras and programs
write one to about a dozen; a file of a few kilobytes could have thousands."""

MAX_IMAGE_SIDE = 100_000
"""Longest side of an image that is decoded; resizing needs memory for every pixel along a side."""

MAX_SIDE = 10_000
"""Largest value of `max_side`."""

_HEIC_BRANDS = {b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1"}

JPEG_START = b"\xff\xd8\xff"
_JPEG_MARKER = re.compile(rb"\xff([\x02-\xcf\xd8-\xfe])")
"""A marker that starts a segment, or ends the image."""
_START_OF_SCAN, _END_OF_IMAGE = b"\xda", b"\xd9"

_KEYWORDS, _CHARACTER_SET = (2, 25), (1, 90)
"""Data sets of the IPTC standard."""

_SIXTEEN_BITS = ("I;16", "I;16L", "I;16B", "I;16N")

_PILLOW_FILTER = ("ignore", None, Warning, re.compile(r"(PIL|pillow_heif)\b"), 0)
"""Entry of `warnings.filters`: action, message, category, module and line."""
_CONTENTS = (bytes, bytearray, memoryview)
apart: ContextVar[Callable[..., NDArray[np.uint8]] | None] = ContextVar("apart", default=None)
"""Runs a function of this module on the contents of a file in another process; see `decoder`."""
_filter_lock, _n_ignoring = threading.Lock(), 0


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """Settings of decoding, part of every model that was trained on images."""

    max_side: int | None = None
    """Length in pixels to which the longest side is resized; None keeps the size."""
    upscale: bool = True
    """True if images smaller than `max_side` are enlarged."""
    color: bool = False
    """True for three colour channels, False for grey levels."""

    def __post_init__(self) -> None:
        if self.max_side is not None and check_count("max_side", self.max_side, least=1) > MAX_SIDE:
            raise InvalidArgument(f"max_side must be at most {MAX_SIDE}, got {self.max_side}.")


def decode(
    source: Any, config: DecodeConfig | None = None, *, name: str = "", reduced: bool = False
) -> NDArray[np.uint8]:
    """Return an image as (height, width) grey levels, or (height, width, 3) colours, uint8.

    Parameters
    ----------
    source : a path, the bytes of a file, a PIL image, or an array: (height, width) or
        (height, width, 1 | 3 | 4) of uint8, of uint16, or of floats in [0, 1].
    config : size and colours.
    name : name of the image in errors; by default the path.
    reduced : decode a JPEG file at a reduced size of at least `8 * max_side`. That takes less time,
        and gives slightly other pixels.

    Raises
    ------
    UnreadableImage : the file is missing, empty, truncated, not an image, or too large.
    """
    config = config or DecodeConfig()
    found = _decode_apart("decode", source, name, config=config, reduced=reduced)
    if found is not None:
        return found
    least_side = 8 * config.max_side if reduced and config.max_side is not None else None
    return _resize(_load(source, name, config.color, least_side), config)


def _decode_apart(
    function: str, source: Any, name: str, **options: Any
) -> NDArray[np.uint8] | None:
    """Return what a function returns in a process of its own, None if it should run in this one."""
    run, content = apart.get(), source
    if run is None or not (is_source(source) or isinstance(source, _CONTENTS)):
        return None
    if is_source(source):
        name, content = name or source_name(source), read_image_file(source)
    return run(function, bytes(content), name or "the image", **options)


def read_image_file(source: Source) -> bytes:
    """Return the bytes of an image file; raise `UnreadableImage` if it cannot be read."""
    try:
        return read_source(source)
    except StorageError as error:
        raise UnreadableImage(str(error)) from error


def image_size(content: bytes, name: str = "the image") -> tuple[int, int]:
    """Return the width and height in the header of an image file.

    Parameters
    ----------
    content : bytes of the file.
    name : name of the image in errors.
    """
    with open_image(io.BytesIO(as_image_file(content, name)), name) as image:
        return image.size


def reduce_jpeg(content: bytes, name: str, max_pixels: int) -> bytes:
    """Return an image file, a JPEG file of up to four times too many pixels at half its size.

    A progressive one stays: its decoder holds all pixels.
    """
    content = as_image_file(content, name)
    with open_image(io.BytesIO(content), name) as image:
        width, height = image.size
        is_baseline = isinstance(image, JpegImageFile) and "progressive" not in image.info
        if not is_baseline or not max_pixels < width * height <= 4 * max_pixels:
            return content
    return encode(halve_jpeg(content, name=name), "JPEG")


def halve_jpeg(content: bytes, *, name: str) -> NDArray[np.uint8]:
    """Return a JPEG file at half its size, as grey levels or colours."""
    if (found := _decode_apart("halve_jpeg", content, name)) is not None:
        return found
    with open_image(io.BytesIO(content), name) as image:
        _check_scans(content, name)
        image.draft(image.mode, (image.width // 2, image.height // 2))
        return np.asarray(_load_pixels(image, name))


def _load(source: Any, name: str, color: bool, least_side: int | None = None) -> Image.Image:
    """Return an upright image in mode L or RGB; of a JPEG file only what is needed is decoded.

    Parameters
    ----------
    least_side : longest side in pixels to which a JPEG file may be reduced. By default, it is
        reduced only if it has too many pixels.
    """
    if isinstance(source, np.ndarray):
        return _from_array(np.asarray(source), name or "the array")
    if isinstance(source, Image.Image):
        return _load_pixels(source, name or "the image")
    if isinstance(source, _CONTENTS):
        content, name = bytes(source), name or "the image"
    elif is_source(source):
        name = name or source_name(source)
        content = read_image_file(source)
    else:
        raise InvalidArgument(
            f"an image must be a path, bytes, an array or a PIL image, got {type(source).__name__}."
        )
    content = as_image_file(content, name)
    with open_image(io.BytesIO(content), name) as image:
        if not isinstance(image, JpegImageFile):
            return _load_pixels(image, name)
        is_grey = not color and image.format == "JPEG" and image.mode == "RGB"
        _check_scans(content, name)
        width, height = image.size
        if width * height > MAX_JPEG_PIXELS:
            raise _too_large(name, width * height, MAX_JPEG_PIXELS)
        scale = _jpeg_scale(width, height, least_side)
        if is_grey or scale > 1:
            size = max(width // scale, 1), max(height // scale, 1)
            image.draft("L" if is_grey else image.mode, size)
        return _load_pixels(image, name)


def _check_scans(content: bytes, name: str) -> None:
    """Raise `UnreadableImage` if a JPEG file has too many scans."""
    if content.count(b"\xff" + _START_OF_SCAN) <= MAX_JPEG_SCANS:
        return
    n_scans, place = 0, len(JPEG_START) - 1
    # Other data may have the same bytes: thumbnails in a segment, or what follows the image.
    while (marker := _JPEG_MARKER.search(content, place)) and marker[1] != _END_OF_IMAGE:
        n_scans += marker[1] == _START_OF_SCAN
        if n_scans > MAX_JPEG_SCANS:
            raise UnreadableImage(f"{name} has more than {MAX_JPEG_SCANS} scans.")
        place = marker.end() + int.from_bytes(content[marker.end() : marker.end() + 2], "big")


def _jpeg_scale(width: int, height: int, least_side: int | None) -> int:
    """Return the divisor of the size at which a JPEG file is decoded: 1, 2, 4 or 8."""
    scale = 1
    while scale < 8 and (
        width * height > MAX_PIXELS * scale**2
        or (least_side is not None and max(width, height) >= least_side * scale * 2)
    ):
        scale *= 2
    return scale


@contextmanager
def ignore_pillow_warnings() -> Iterator[None]:
    """Ignore Pillow's warnings while any thread is in this context.

    Filters belong to the process. `warnings.catch_warnings` replaces them all, so that threads
    which leave in another order than they entered would leave it with the filters of one of them.
    """
    global _n_ignoring
    with _filter_lock:
        _n_ignoring += 1
        if _PILLOW_FILTER not in warnings.filters:
            warnings.filters.insert(0, _PILLOW_FILTER)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        with _filter_lock:
            _n_ignoring -= 1
            if not _n_ignoring and _PILLOW_FILTER in warnings.filters:
                warnings.filters.remove(_PILLOW_FILTER)  # type: ignore[attr-defined]


def open_image(file: IO[bytes], name: str) -> ImageFile.ImageFile:
    """Read the header of an image file.

    Parameters
    ----------
    file : stays open until the image is closed.
    name : name of the image in errors.
    """
    start = file.read(256)
    file.seek(0)
    if not start:
        raise UnreadableImage(f"{name} is empty.")
    formats = (*FORMATS, "HEIF") if _is_heic(start, name) else FORMATS
    try:
        with ignore_pillow_warnings():  # About many pixels, which `_load_pixels` checks.
            return Image.open(file, formats=formats)
    except Image.DecompressionBombError as error:
        if not start.startswith(JPEG_START):
            raise _too_large(name) from error
        file.seek(0)
        return JpegImageFile(file)  # Its header was read before.
    except UnidentifiedImageError as error:
        raise UnreadableImage(f"{name} is not an image that can be read.") from error
    except Exception as error:
        raise _damaged(name, error) from error


def _too_large(name: str, n_pixels: int | None = None, limit: int = MAX_PIXELS) -> UnreadableImage:
    size = "" if n_pixels is None else f"{n_pixels / 1e6:.0f} megapixels; "
    return UnreadableImage(f"{name} is too large: {size}the limit is {limit / 1e6:.0f} megapixels.")


def _load_pixels(image: Image.Image, name: str) -> Image.Image:
    """Decode an opened image, turn it upright and convert it to mode L or RGB."""
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise _too_large(name, width * height)
    if max(width, height) > MAX_IMAGE_SIDE:
        raise UnreadableImage(
            f"{name} is too long and narrow: it has {width} × {height} pixels, and a side may have "
            f"at most {MAX_IMAGE_SIDE}."
        )
    if width * height == 0:
        raise UnreadableImage(f"{name} has {width} × {height} pixels.")
    try:
        with ignore_pillow_warnings():  # About odd metadata, which is not used.
            image.load()
            return _flatten(_turn_upright(image), name, image.format)
    except (UnreadableImage, MemoryError):
        raise
    except Exception as error:
        # Pillow's decoders raise errors of any type on a damaged file.
        raise _damaged(name, error) from error


def _damaged(name: str, error: Exception) -> UnreadableImage:
    reason = str(error).rstrip(".") or type(error).__name__
    if "truncated" in reason:
        reason = "the end of the file is missing"
    return UnreadableImage(f"{name} is damaged: {reason}.")


def _turn_upright(image: Image.Image) -> Image.Image:
    """Apply the EXIF orientation; ignore one that cannot be read."""
    try:
        return ImageOps.exif_transpose(image)
    except Exception:
        return image


def _is_heic(start: bytes, name: str) -> bool:
    """Return whether a file is HEIC, and load its decoder; AVIF has the same container.

    Parameters
    ----------
    start : first bytes of the file.
    """
    if start[4:8] != b"ftyp":
        return False
    length = min(int.from_bytes(start[:4], "big"), len(start))
    brands = {start[8:12], *(start[i : i + 4] for i in range(16, length, 4))}
    if b"avif" in brands or b"avis" in brands or not brands & _HEIC_BRANDS:
        return False
    try:
        import pillow_heif  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise UnreadableImage(
            f"{name} is a HEIC image, which needs an extra: {install_command('heic')}."
        ) from error
    pillow_heif.register_heif_opener()
    return True


def _flatten(image: Image.Image, name: str, file_format: str | None = None) -> Image.Image:
    """Convert an image to mode L or RGB: eight bits, no palette, no transparency."""
    if image.mode in _SIXTEEN_BITS:
        return _upper_bits(np.asarray(image).astype(np.uint16), image.info.get("transparency"))
    if image.mode == "I" and file_format in (None, "PNG"):
        # Pillow's older mode for 16 bits of grey; in a TIFF it has 32 bits of unknown range.
        levels = np.asarray(image)
        if levels.min() >= 0 and levels.max() <= 65535:
            return _upper_bits(levels.astype(np.uint16), image.info.get("transparency"))
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        grey = image.mode in ("L", "LA", "La", "1")
        mode = {"La": "LA", "RGBa": "RGBA"}.get(image.mode, image.mode)
        colors = image.convert(mode).convert("RGBA")
        white = Image.new("RGBA", colors.size, "white")
        return Image.alpha_composite(white, colors).convert("L" if grey else "RGB")
    if image.mode in ("L", "RGB"):
        return image
    if image.mode == "1":
        return image.convert("L")
    if image.mode in ("P", "CMYK", "YCbCr", "LAB", "HSV", "RGBX"):
        return image.convert("RGB")
    raise UnreadableImage(f"{name} has Pillow's mode {image.mode!r}, which is not supported.")


def _upper_bits(levels: NDArray[np.uint16], transparent: object) -> Image.Image:
    """Return the upper half of 16-bit levels, the transparent level as white."""
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


def _resize(image: Image.Image, config: DecodeConfig) -> NDArray[np.uint8]:
    """Convert an image to the channels and the size that are configured."""
    image = image.convert("RGB" if config.color else "L")
    size = resized_size(*image.size, config)
    if size != image.size:
        image = image.resize(size, Image.Resampling.LANCZOS)
    return np.asarray(image)


def resized_size(width: int, height: int, config: DecodeConfig) -> tuple[int, int]:
    """Return the width and height of a decoded image from those in its header."""
    longest, side = max(width, height), config.max_side
    if side is None or longest == side or (longest < side and not config.upscale):
        return width, height
    # The longest side becomes exactly `max_side`; the other is rounded, at least one pixel.
    return max(round(width * side / longest), 1), max(round(height * side / longest), 1)


def read_embedded_keywords(path: str | os.PathLike[str]) -> tuple[bytes, list[str]]:
    """Return the XMP packet of an image file and its IPTC keywords; both are empty if it has none.

    Usually only the header is read. A file that cannot be read has no keywords: decoding reports
    it.
    """
    try:
        with (
            ignore_pillow_warnings(),  # About odd metadata.
            open_address(path) as file,
            open_image(file, os.fspath(path)) as image,
        ):
            packet = image.info.get("xmp", b"")
            records = IptcImagePlugin.getiptcinfo(image) or {}
    except Exception:  # Pillow raises errors of any type on damaged metadata.
        return b"", []
    packet = packet.encode() if isinstance(packet, str) else bytes(packet)
    found = records.get(_KEYWORDS, [])
    words = found if isinstance(found, list) else [found]
    is_utf8 = records.get(_CHARACTER_SET) == b"\x1b%G"
    return packet.rstrip(b"\0"), [_decode_keyword(word, is_utf8=is_utf8) for word in words]


def _decode_keyword(word: bytes, *, is_utf8: bool) -> str:
    """Return an IPTC keyword as text; many programs write UTF-8 without saying so."""
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError:
        return word.decode("utf-8", "replace") if is_utf8 else word.decode("latin-1")


SUFFIXES: dict[str, str] = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG"}
"""Formats that are written, by file suffix."""


def encode(image: NDArray[np.uint8], kind: str = "PNG", *, quality: int = 92) -> bytes:
    """Return the bytes of an image file; equal arrays give equal bytes.

    Parameters
    ----------
    image : (height, width) grey levels or (height, width, 3) colours.
    kind : "PNG", which is lossless, or "JPEG".
    quality : of JPEG, 1 to 100.
    """
    buffer = io.BytesIO()
    picture = Image.fromarray(np.ascontiguousarray(image))
    if kind == "JPEG":
        # Without chroma subsampling: drawings have thin lines that differ only in colour.
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


def write_image(path: Path, image: NDArray[np.uint8]) -> None:
    """Write an image atomically, as JPEG or PNG according to the suffix of the path."""
    check_choice("the ending of a file's name", path.suffix.lower(), tuple(SUFFIXES))
    write_atomically(path, encode(image, SUFFIXES[path.suffix.lower()]))

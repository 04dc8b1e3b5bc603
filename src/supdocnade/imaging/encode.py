"""From arrays to image files, the same bytes for the same array."""

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from supdocnade.errors import InvalidArgument
from supdocnade.shapes import check_choice, check_count
from supdocnade.storage import write_atomically

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


def write_image(path: Path, image: NDArray[np.uint8], *, quality: int = 92) -> None:
    """Write an image to a file, as JPEG or PNG by the ending of its name, whole or not at all."""
    check_choice("the ending of a file's name", path.suffix.lower(), tuple(KINDS))
    write_atomically(path, encode(image, KINDS[path.suffix.lower()], quality=quality))

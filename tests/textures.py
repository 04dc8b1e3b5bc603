"""Small textured images."""

import io

import numpy as np
from PIL import Image

from supdocnade.folders.keywords import OWN, new_packet


def stripes(number, shape=(64, 72)):
    """Return noisy stripes whose angle and width depend on the number."""
    rng = np.random.default_rng(number)
    y, x = np.mgrid[: shape[0], : shape[1]]
    turn, width = rng.uniform(0, np.pi), rng.uniform(3, 9)
    waves = np.sin((x * np.cos(turn) + y * np.sin(turn)) * 2 * np.pi / width)
    return np.clip(128 + 90 * waves + rng.normal(0, 12, shape), 0, 255).astype(np.uint8)


def as_png(image):
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "PNG")
    return stream.getvalue()


def write_images(folder, count, **options):
    """Write textures to files and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number:03}.png" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_bytes(as_png(stripes(number, **options)))
    return paths


def plain_packet(*keywords):
    """Return XMP with keywords that no model has predicted."""
    return new_packet(list(keywords)).replace(OWN.encode(), b"urn:other:")


def iptc_segment(*data_sets):
    """Return the segment of a JPEG file with an IPTC record."""
    record = b"".join(
        b"\x1c" + bytes(number) + len(value).to_bytes(2, "big") + value
        for number, value in data_sets
    )
    record += b"\0" * (len(record) % 2)
    block = b"8BIM\x04\x04\0\0" + len(record).to_bytes(4, "big") + record
    body = b"Photoshop 3.0\0" + block
    return b"\xff\xed" + (len(body) + 2).to_bytes(2, "big") + body

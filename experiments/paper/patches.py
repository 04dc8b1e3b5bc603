"""Patches of visual words: pictures of the words of classes, as the paper shows them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from supdocnade.images.decode import decode, write_image
from supdocnade.schema import load_arrays, save_arrays
from supdocnade.seeding import named_generator
from supdocnade.visual_words.encoder import ImageEncoder

SIDE, N_PATCHES, N_IMAGES = 32, 16, 400
"""Pixels along a side of a patch, patches of a word, and images that are looked at."""

_GAP = 2


def save_patches(path: Path, encoder: ImageEncoder, images: Sequence[Any]) -> None:
    """Write patches of every visual word, each of another image, to a file."""
    pixels = np.full((encoder.n_words, N_PATCHES, SIDE, SIDE, 3), 255, np.uint8)
    n_found_K = np.zeros(encoder.n_words, np.int64)
    generator = named_generator(0, "patches of words")
    for number in generator.permutation(len(images))[:N_IMAGES]:
        encoded = encoder.encode(images[number])
        colors = decode(images[number], replace(encoder.describer.decoding, color=True))
        shuffled = generator.permutation(len(encoded.words_SM))
        words, first = np.unique(encoded.words_SM[shuffled, 0], return_index=True)
        for word, patch in zip(words, shuffled[first], strict=True):
            if n_found_K[word] < N_PATCHES:
                y, x = encoded.centres_S2[patch]
                half = encoded.patch_size_S[patch] / 2
                cut = Image.fromarray(colors).crop((x - half, y - half, x + half, y + half))
                pixels[word, n_found_K[word]] = np.asarray(cut.resize((SIDE, SIDE)))
                n_found_K[word] += 1
    save_arrays(path, {"patches": pixels}, {})


def load_patches(path: Path) -> NDArray[np.uint8]:
    """Return what `save_patches` wrote, (words, patches, side, side, 3); white if missing."""
    return load_arrays(path)[0]["patches"]


def draw_words(path: Path, pixels: NDArray[np.uint8], words: Sequence[int]) -> None:
    """Draw one row of patches per visual word."""
    cell = SIDE + _GAP
    sheet = np.full((len(words) * cell, N_PATCHES * cell, 3), 255, np.uint8)
    for row, word in enumerate(words):
        for column, patch in enumerate(pixels[word]):
            top, left = row * cell, column * cell
            sheet[top : top + SIDE, left : left + SIDE] = patch
    write_image(path, sheet)

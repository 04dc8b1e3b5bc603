"""Heat maps: the contribution of every patch to a class or a tag, drawn over the photograph.

The contribution of a patch is spread over its area with a raised cosine, so that the map sums to
the contribution of all patches. Values are given per hundredth of the photograph's area. Bright
areas support the class or tag, dark areas oppose it, also in greyscale.
"""

import os
import unicodedata
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from supdocnade.checks import check_shape
from supdocnade.errors import InvalidArgument
from supdocnade.images.decode import DecodeConfig, decode, write_image
from supdocnade.text import shorten_name

if TYPE_CHECKING:
    from supdocnade.scene.attribution import Explanation
    from supdocnade.scene.model import SceneModel

Floats = NDArray[np.float64]

COLOURS = (
    "#0e1344", "#1b2169", "#2b3683", "#414f8f", "#5e688d", "#808080",
    "#b58d6b", "#e09e52", "#ffb447", "#ffd065", "#ffefa1",
)  # fmt: skip
"""Colours of -1, -0.8, ... 1. Their lightness rises in even steps below and above 0 (in OKLab), so
that the scale is also a grey scale."""


def diverging(values: Floats) -> Floats:
    """Return colours of numbers in [-1, 1], (..., 3) sRGB in [0, 1]; larger ones are lighter.

    >>> diverging(np.array([-1.0, 0.0, 1.0])).mean(axis=1).round(1).tolist()
    [0.1, 0.5, 0.9]
    """
    table = np.array([list(bytes.fromhex(colour[1:])) for colour in COLOURS]) / 255
    places = np.linspace(-1, 1, len(table))
    return np.stack([np.interp(values, places, channel) for channel in table.T], axis=-1)


Picture = NDArray[np.uint8]

SPREAD = 1.5
"""Half width of the window over which a patch's contribution is spread, in sides of the patch."""

TEXTURE = 0.45
"""Share of the photograph's contrast that is kept where the contribution is 0; half of it is kept
where the contribution is largest, so that a larger contribution is lighter at every pixel."""

MAX_NAME, MAX_LINE = 40, 95
"""Letters of a name in the title, and of a line of text."""

_INK, _PAPER = "#1d2129", "#ffffff"
_FONTS = {
    False: ("DejaVuSans.ttf", "Arial.ttf", "NotoSansCJK-Regular.ttc", "NotoSansArabic-Regular.ttf"),
    True: ("DejaVuSans-Bold.ttf", "Arialbd.ttf", "NotoSansCJK-Bold.ttc", "NotoSansArabic-Bold.ttf"),
}
"""Font files that Pillow looks for on the system, regular and bold, in order of preference."""

_INVISIBLE = "\u200d\ufe0e\ufe0f"
"""Characters that join emoji, and that choose between their colour and their plain form."""


def contribution_map(explanation: "Explanation") -> Floats:
    """Return the contribution of every pixel, (height, width); their sum is that of the patches."""
    total = np.zeros(explanation.size)
    for side in np.unique(explanation.patch_size_S):
        chosen = explanation.patch_size_S == side
        (y_S, x_S), share_S = explanation.centres_S2[chosen].T, explanation.share_S[chosen]
        # Patches lie on a grid, so two matrix products replace a sum over patches.
        ys, row_S = np.unique(y_S, return_inverse=True)
        xs, column_S = np.unique(x_S, return_inverse=True)
        grid = np.zeros((len(ys), len(xs)))
        np.add.at(grid, (row_S, column_S), share_S)
        width = SPREAD * float(side)
        total += (
            _windows(ys, width, explanation.size[0]).T
            @ grid
            @ _windows(xs, width, explanation.size[1])
        )
    return total


def contribution_scale(explanation: "Explanation") -> tuple[Floats, float]:
    """Return the contribution per hundredth of the area at every pixel, and that of full colour."""
    height, width = explanation.size
    values = contribution_map(explanation) * (height * width / 100)
    return values, float(np.quantile(np.abs(values), 0.995))


def _windows(centres: NDArray[np.floating], width: float, n_pixels: int) -> Floats:
    """Return a raised cosine around every centre, (centres, pixels); rows sum to 1."""
    away = (np.arange(n_pixels) - centres.astype(np.float64)[:, None]) / width
    window = np.where(np.abs(away) < 1, 1 + np.cos(np.pi * away), 0.0)
    window += 1e-12  # A centre may have no pixel near it.
    normal: Floats = window / window.sum(axis=1, keepdims=True)
    return normal


def overlay(picture: Picture, values: Floats, limit: float) -> Picture:
    """Return a photograph in grey with values drawn over it, (height, width, 3).

    Parameters
    ----------
    picture : (height, width, 3) colours.
    values : (height, width), drawn in full colour from ± limit on.
    """
    check_shape("values", values.shape, picture.shape[:2])
    t = np.clip(values / limit, -1, 1) if limit > 0 else np.zeros_like(values)
    grey = picture @ np.array([0.299, 0.587, 0.114]) / 255
    relief = TEXTURE * (1 - 0.5 * np.abs(t)) * (grey - 0.5)
    mixed = np.clip(diverging(t) + relief[..., None], 0, 1)
    levels: Picture = np.round(255 * mixed).astype(np.uint8)
    return levels


def draw_explanation(
    image: Any,
    explanation: "Explanation",
    decoding: DecodeConfig | None = None,
    *,
    width: int = 1200,
) -> Picture:
    """Return the photograph beside its heat map, with title and legend, (height, width, 3).

    Parameters
    ----------
    image : the explained photograph: a path, bytes, an array or a PIL image.
    explanation : result of `SceneModel.explain`.
    decoding : how the model reads photographs, `fitted_.encoder.describer.decoding`.
    width : width of the result in pixels.
    """
    config = decoding or DecodeConfig()
    config = DecodeConfig(max_side=config.max_side, upscale=config.upscale, color=True)
    picture = decode(image, config)
    if picture.shape[:2] != explanation.size:
        raise InvalidArgument(
            f"image must have {explanation.size} pixels as it was read, got {picture.shape[:2]}; "
            "give the model's decoding."
        )
    return _Drawing(picture, explanation, width).draw()


def write_explanation(
    model: "SceneModel",
    image: Any,
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    tag: str | None = None,
) -> None:
    """Explain a photograph and write the drawing to a PNG or JPEG file.

    Parameters
    ----------
    image, label, tag : as for `SceneModel.explain`.
    path : file to write; its suffix is the format.
    """
    found = model.explain(image, label=label, tag=tag)
    decoding = model.fitted_.encoder.describer.decoding
    write_image(Path(path), draw_explanation(image, found, decoding))


class _Drawing:
    """Title, photograph, heat map and legend on one canvas; lengths are hundredths of its width."""

    margin, gap, head, foot = 3.0, 2.0, 11.5, 11.0
    panel = (100 - 2 * margin - gap) / 2

    def __init__(self, picture: Picture, explanation: "Explanation", width: int):
        self.picture, self.explanation, self.unit = picture, explanation, width / 100
        self.tall = min(self.panel * picture.shape[0] / picture.shape[1], 90.0)
        height = round((self.head + self.tall + self.foot) * self.unit)
        self.canvas = Image.new("RGB", (width, height), _PAPER)
        self.pen = ImageDraw.Draw(self.canvas)

    def draw(self) -> Picture:
        values, limit = contribution_scale(self.explanation)
        left, right = self.margin, 100 - self.margin
        middle, bottom = self.margin + self.panel + self.gap, self.head + self.tall
        # A picture taller than the panel keeps its proportions and is centred.
        wide = min(self.panel, self.tall * self.picture.shape[1] / self.picture.shape[0])
        inset = (self.panel - wide) / 2
        self.paste(self.picture, left + inset, self.head, wide, self.tall)
        heat = overlay(self.picture, values, limit)
        self.paste(heat, middle + inset, self.head, wide, self.tall)
        name = shorten_name(self.explanation.name, MAX_NAME)
        brief = shorten_name(self.explanation.name, 18)
        question = "Why" if self.explanation.given else "Why not"
        kind = " the tag" if self.explanation.kind == "tag" else ""
        self.write(left, 4.6, f"{question}{kind} {name}?", 2.6, bold=True)
        decision = shorten_name(f"{name}, {self.explanation.decision}", MAX_LINE)
        self.write(left, 8.9, decision, 2.0)
        # The legend shows the colours as they appear over middle grey.
        grey = np.full((1, 401, 3), 128, np.uint8)
        legend = overlay(grey, np.linspace(-1, 1, 401)[None], 1.0)
        self.paste(legend, middle, bottom + 2.2, self.panel, 2.2)
        numbers = ((middle, f"−{limit:.2g}", "l"), (right, f"+{limit:.2g}", "r"))
        for x, text, anchor in (*numbers, (middle + self.panel / 2, "0", "m")):
            self.write(x, bottom + 6.2, text, 1.45, anchor=anchor)
        self.write(middle, bottom + 9.0, f"against {brief}", 1.45)
        self.write(right, bottom + 9.0, f"for {brief}", 1.45, anchor="r")
        return np.array(self.canvas)

    def paste(self, picture: Picture, x: float, y: float, width: float, height: float) -> None:
        size = max(round(width * self.unit), 1), max(round(height * self.unit), 1)
        resized = Image.fromarray(picture).resize(size, Image.Resampling.BILINEAR)
        self.canvas.paste(resized, (round(x * self.unit), round(y * self.unit)))

    def write(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        *,
        anchor: str = "l",
        bold: bool = False,
    ) -> None:
        """Write text with its baseline at y."""
        font, text = _font_for(text, size * self.unit, bold)
        place = (x * self.unit, y * self.unit)
        self.pen.text(place, text, fill=_INK, font=font, anchor=f"{anchor}s")


def _font_for(text: str, size: float, bold: bool) -> tuple[Any, str]:
    """Return the font with most letters of a text, and the text without letters that it lacks.

    On a system without fonts, the text is spelled in ASCII.
    """
    fonts = [font for file in _FONTS[bold] if (font := _load_font(file, size)) is not None]
    text = "".join(letter for letter in text if letter not in _INVISIBLE)
    if fonts:
        font = max(fonts, key=lambda each: sum(_has_glyph(each, letter) for letter in text))
        drawn = "".join(letter for letter in text if _has_glyph(font, letter))
    else:
        font = ImageFont.load_default(size)
        plain = unicodedata.normalize("NFKD", text.replace("−", "-").replace("…", "..."))
        drawn = plain.encode("ascii", "ignore").decode()
    return font, " ".join(drawn.split()) or "?"


@cache
def _load_font(file: str, size: float) -> Any:
    try:
        return ImageFont.truetype(file, size)
    except OSError:
        return None


@cache
def _has_glyph(font: Any, letter: str) -> bool:
    return letter == " " or bytes(font.getmask(letter)) != bytes(font.getmask("\U0010fffd"))

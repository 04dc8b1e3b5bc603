"""Which patches of a photograph spoke for a class or a tag, drawn over the photograph.

The share of every patch is spread over its area, most of it at the centre, so that the whole map
adds up to what all patches said together. Values are given for one hundredth of the photograph's
area: how much that part adds to the score. Dark spoke against, bright spoke for, also in grey.
"""

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.typing import NDArray

from supdocnade.checks import check_shape
from supdocnade.errors import InvalidArgument
from supdocnade.images.decode import DecodeConfig, decode, encode, write_image
from supdocnade.scene.attribution import Explanation
from supdocnade.scene.model import SceneModel
from supdocnade.text import short_name

# A diverging colour scale that is also a grey scale: from dark blue over grey to bright yellow.

Floats = NDArray[np.float64]

LIGHTNESS = (0.22, 0.60, 0.97)
"""Of -1, 0 and 1 in OKLab, where equal steps look equal."""

CHROMA = (0.13, 0.15)
HUES = (4.75, 1.45)
"""Of the dark and of the bright end: blue, and yellow that comes from orange; in radians."""


def diverging(values: Floats) -> Floats:
    """Return colours of numbers in [-1, 1], (..., 3) sRGB in [0, 1]; larger ones are lighter.

    >>> diverging(np.array([-1.0, 0.0, 1.0])).mean(axis=1).round(1).tolist()
    [0.1, 0.5, 0.9]
    """
    t = np.clip(values, -1.0, 1.0)
    lightness = np.interp(t, (-1, 0, 1), LIGHTNESS)
    size = np.abs(t)
    # Towards the ends there is less room for colour between black and white.
    chroma = np.where(t < 0, *CHROMA) * np.sin(0.75 * np.pi * size)
    hue = np.where(t < 0, HUES[0], HUES[1] + 0.45 * (size - 1))
    return _to_srgb(lightness, chroma * np.cos(hue), chroma * np.sin(hue))


def lightness(colours: Floats) -> Floats:
    """Return the OKLab lightness of sRGB colours in [0, 1]."""
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    cones = np.cbrt(linear @ _RGB_TO_LMS.T)
    result: Floats = cones @ np.array([0.2104542553, 0.7936177850, -0.0040720468])
    return result


def _to_srgb(lightness: Floats, a: Floats, b: Floats) -> Floats:
    """Return sRGB colours of OKLab (Ottosson 2020), clipped to those that a screen has."""
    cones = np.stack(
        [
            lightness + 0.3963377774 * a + 0.2158037573 * b,
            lightness - 0.1055613458 * a - 0.0638541728 * b,
            lightness - 0.0894841775 * a - 1.2914855480 * b,
        ],
        axis=-1,
    )
    linear = np.clip(cones**3 @ np.linalg.inv(_RGB_TO_LMS).T, 0.0, 1.0)
    result: Floats = np.where(
        linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055
    )
    return result


_RGB_TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)

Picture = NDArray[np.uint8]

SPREAD = 1.5
"""A patch's share is spread over so many of its sides: neighbours melt into each other."""

TEXTURE = 0.45
"""How much of the photograph's contrast remains where nothing was said; half of it remains where
most was said. A larger value is lighter at every pixel, whatever the photograph."""

LONGEST_NAME = 40

_INK, _FAINT, _PAPER = "#1d2129", "#5b6270", "#ffffff"
_FONTS = ("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans Arabic", "Arial")


def evidence_map(explanation: Explanation) -> Floats:
    """Return the evidence at every pixel, (height, width); its sum is that of all shares.

    Parameters
    ----------
    explanation : of one photograph.
    """
    total = np.zeros(explanation.size)
    for side in np.unique(explanation.patch_size_S):
        chosen = explanation.patch_size_S == side
        (y_S, x_S), share_S = explanation.centres_S2[chosen].T, explanation.share_S[chosen]
        # Patches lie on a grid: two small products instead of a sum over patches.
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


def evidence_scale(explanation: Explanation) -> tuple[Floats, float]:
    """Return what one hundredth of the area adds to the score, at every pixel, (height, width);
    and the size from which on it is drawn in full colour.

    Parameters
    ----------
    explanation : of one photograph.
    """
    height, width = explanation.size
    values = evidence_map(explanation) * (height * width / 100)
    return values, float(np.quantile(np.abs(values), 0.995))


def _windows(centres: NDArray[np.floating], width: float, n_pixels: int) -> Floats:
    """Return a raised cosine around every centre, (centres, pixels); rows sum to 1."""
    away = (np.arange(n_pixels) - centres.astype(np.float64)[:, None]) / width
    window = np.where(np.abs(away) < 1, 1 + np.cos(np.pi * away), 0.0)
    window += 1e-12  # Of a centre without pixels near it.
    normal: Floats = window / window.sum(axis=1, keepdims=True)
    return normal


def overlay(picture: Picture, values: Floats, limit: float) -> Picture:
    """Return a photograph in quiet grey with values over it, (height, width, 3).

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
    explanation: Explanation,
    decoding: DecodeConfig | None = None,
    *,
    width: int = 1200,
) -> Picture:
    """Return a photograph beside the evidence in it, with title and legend, (.., width, 3).

    Parameters
    ----------
    image : the photograph that was explained: a path, bytes, an array or a PIL image.
    explanation : what `SceneModel.explain` returned for it.
    decoding : how the model reads photographs, `fitted_.bag.encoder_.description.decoding`.
    width : of the result, in pixels.
    """
    config = decoding or DecodeConfig()
    config = DecodeConfig(max_side=config.max_side, upscale=config.upscale, color=True)
    picture = decode(image, config)
    if picture.shape[:2] != explanation.size:
        raise InvalidArgument(
            f"image must have {explanation.size} pixels as it was read, got {picture.shape[:2]}; "
            "give the model's decoding."
        )
    figure = _figure(picture, explanation, width)
    canvas = FigureCanvasAgg(figure)
    with warnings.catch_warnings():
        # A name may have letters that no font here has; they become boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        canvas.draw()  # type: ignore[no-untyped-call]
    drawn: Picture = np.array(canvas.buffer_rgba())[..., :3]  # type: ignore[no-untyped-call]
    return drawn


def explanation_png(
    model: SceneModel, image: Any, *, label: str | None = None, tag: str | None = None
) -> bytes:
    """Explain a photograph and return the drawing as a PNG file.

    Parameters
    ----------
    image, label, tag : as for `SceneModel.explain`.
    """
    return encode(_explained(model, image, label, tag), "PNG")


def write_explanation(
    model: SceneModel,
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
    path : of the file; its ending says which.
    """
    write_image(Path(path), _explained(model, image, label, tag))


def _explained(model: SceneModel, image: Any, label: str | None, tag: str | None) -> Picture:
    found = model.explain(image, label=label, tag=tag)
    return draw_explanation(image, found, model.fitted_.bag.encoder_.description.decoding)


def _figure(picture: Picture, explanation: Explanation, width: int) -> Figure:
    """Lay out title, photograph, evidence and legend."""
    values, limit = evidence_scale(explanation)
    # All lengths are in units of a figure 100 wide.
    margin, gap, head, foot = 3.0, 2.0, 11.5, 11.0
    panel = (100 - 2 * margin - gap) / 2
    tall = min(panel * picture.shape[0] / picture.shape[1], 90.0)
    height = head + tall + foot
    figure = Figure(figsize=(10, height / 10), dpi=width / 10, facecolor=_PAPER)
    for number, shown in enumerate((picture, overlay(picture, values, limit))):
        left = margin + number * (panel + gap)
        axes = figure.add_axes((left / 100, foot / height, panel / 100, tall / height))
        axes.imshow(shown, interpolation="bilinear")
        axes.set_axis_off()
    name = short_name(explanation.name, LONGEST_NAME)
    left, right, start = margin / 100, 1 - margin / 100, (margin + panel + gap) / 100
    _write(figure, left, 1 - 4.6 / height, f"{_question(explanation)} {name}?", 19, weight="bold")
    _write(figure, left, 1 - 8.6 / height, _sentence(explanation), 11.5, color=_FAINT)
    _legend(figure.add_axes((start, (foot - 4.4) / height, panel / 100, 2.2 / height)), limit)
    low, brief = (foot - 9.0) / height, short_name(explanation.name, 18)
    _write(figure, start, low, f"spoke against {brief}", 10.5)
    _write(figure, right, low, f"spoke for {brief}", 10.5, ha="right")
    note = "Numbers: what one hundredth of the area adds to the score."
    _write(figure, left, (foot - 3.7) / height, note, 10.5, color=_FAINT)
    return figure


def _legend(axes: Axes, limit: float) -> None:
    """Draw the colours as they appear over middle grey, with three numbers."""
    t = np.linspace(-1, 1, 401)[None]
    middle = np.full((1, 401, 3), 128, np.uint8)
    axes.imshow(overlay(middle, t, 1.0), aspect="auto", extent=(-1, 1, 0, 1))
    axes.set_yticks([])
    axes.set_xticks([-1, 0, 1], [f"−{limit:.2g}", "0", f"+{limit:.2g}"])
    axes.tick_params(length=0, labelsize=10.5, labelcolor=_INK, pad=3)
    first, _, last = axes.get_xticklabels()
    first.set_horizontalalignment("left")
    last.set_horizontalalignment("right")
    for spine in axes.spines.values():
        spine.set_visible(False)


def _question(explanation: Explanation) -> str:
    return "Why the tag" if explanation.kind == "tag" else "Why"


def _sentence(explanation: Explanation) -> str:
    share_S = explanation.share_S
    spoke_for, against = share_S[share_S > 0].sum(), share_S[share_S < 0].sum()
    score = explanation.score
    if explanation.kind == "tag":  # Its name is above, and may be long.
        score = score.replace(explanation.name, "tag")
    score = f"{score} {explanation.whole:+.2f}"
    signed = f"patches for it {spoke_for:+.2f}, patches against it {against:+.2f}"
    text = f"{score[0].upper()}{score[1:]} = without any patch {explanation.empty:+.2f}, {signed}."
    return text.replace("-", "−")


def _write(figure: Figure, x: float, y: float, text: str, size: float, **options: Any) -> Text:
    written = figure.text(x, y, text, fontsize=size, **{"color": _INK, **options})
    written.set_parse_math(False)  # A name with dollar signs is a name.
    written.set_fontfamily([font for font in _FONTS if font in _known_fonts()])
    return written


def _known_fonts() -> set[str]:
    return set(font_manager.fontManager.get_font_names())

"""Random palettes: one set for all classes, so that colour does not reveal the class.

A palette gives the tones of the sky from its top to the horizon, those of the land from far to
near, and three inks. The tone of a surface depends on its depth, not on its material.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

_STEPS = 256

_FROM_RGB = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)

_PRINTS = (
    "7fbdd0 b9dcd8 f5ecd2  b9d0ad 74a57e 37695b 17393c  fdf7e8 14303a f2a83e",  # Clear morning
    "4f9cbd 9ccbd0 f0f0da  a6c2bf 4f8c9b 24536e 122a41  fbf6e6 0f2338 f0674a",  # North sea
    "f3c58c f8dcae fcefd5  ecb083 d2745a 8e414a 44243b  fff6e2 381c33 e0513a",  # Apricot
    "bfe3d6 dcefe0 faf5e4  a8d6c5 5dab9e 2c7277 17404d  fffaf0 12333f ee7a56",  # Mint
    "39295e a8456f f2935f  b95573 7b3666 462558 1f143a  ffe9cf 180f30 ffd27d",  # Ember
    "6a6ca6 b994b4 f8cbb8  c98ca1 90608e 584378 2a2651  fff1e4 211d45 fff0c2",  # Rose hour
    "21374c 7f6b66 eba65f  a06f59 6d4b4e 3e3241 1b1b2b  fdeed2 15151f ffd98a",  # Copper
    "0b1534 1c2f5c 3a5a89  34507b 22385e 152444 0a1329  e9eff6 060c1d ffe6a0",  # Midnight
    "08222c 16504f 3d8f83  2f7371 1d4e56 11323d 071b24  e8f6e9 04141b f6efb0",  # Aurora
    "111d41 263f70 4f70a2  5b7aa8 87a3c5 bccfe2 eff4f7  fbfdfe 16234a ffdf98",  # Snow light
    "1c1139 3b2563 6d4a93  7a58a0 9d7fb8 c8a9cf ecd7e6  fbf2f7 1c1139 ffc9a3",  # Lilac night
    "2a6a8b 5f9db2 a9cfd3  6aa0aa a6c1b0 ddd1b0 f8eed6  fffaed 1d4258 f2643d",  # Salt flat
    "a83f2c cf6a43 efa069  d98253 edb582 f6d8ae fdf2dd  fffaf0 57212a ffeec4",  # Red earth
    "b2afa8 d3d0c8 f2efe8  b6b2aa 85827c 4d4b49 201f20  fdfcf8 161617 fbf8ee",  # Graphite
    "151517 29292c 47474b  515156 7a797d abaaaa e5e2dd  fbfaf7 111113 ffffff",  # Negative
    "dfe5e4 ebe9df f5efe1  afc3d8 6f93bf 3260a1 16326d  fffaf0 102554 e84a3c",  # Blue and red ink
    "fbd3ae fce3c6 fdf1dc  f6b794 ef765c b83d50 52203e  fff8ea 42183a 2f6fa8",  # Red and blue ink
    "dcd2a4 e9e0bf f7f0da  cdc289 9a9452 5d6437 2c3622  fffbea 222b1b d9532c",  # Olive
)
"""Three sky colours from top to horizon, four land colours from far to near, paper, ink, glow."""


def _to_lab(rgb: Floats) -> Floats:
    """Return colours in OKLab (Ottosson 2020), in which mixtures and hue rotations look uniform."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    lab: Floats = np.cbrt(linear @ _FROM_RGB.T) @ _TO_LAB.T
    return lab


def _to_rgb(lab: Floats) -> Floats:
    linear = (lab @ np.linalg.inv(_TO_LAB).T) ** 3 @ np.linalg.inv(_FROM_RGB).T
    linear = np.clip(linear, 0, 1)
    rgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return rgb.astype(np.float32)


def _parse(colors: Sequence[str]) -> Floats:
    """Return hexadecimal colours in OKLab, (colours, 3)."""
    levels = [[level / 255 for level in bytes.fromhex(color)] for color in colors]
    return _to_lab(np.array(levels))


def _ramp(lab: Floats) -> Floats:
    """Return a gradient through some colours, (steps, 3)."""
    place = np.linspace(0, len(lab) - 1, _STEPS)
    columns = [np.interp(place, np.arange(len(lab)), column) for column in lab.T]
    return _to_rgb(np.stack(columns, axis=1))


def _pick(ramp: Floats, place: float) -> Floats:
    color: Floats = ramp[round(min(max(place, 0), 1) * (_STEPS - 1))]
    return color


def luminance(color: Floats) -> float:
    """Return the perceived brightness of a colour, from 0 to 1."""
    return float(color @ np.array([0.299, 0.587, 0.114], np.float32))


def mix(first: Floats, second: Floats, share: float) -> Floats:
    """Return the mixture of two colours with `share` of the second."""
    return first + np.float32(share) * (second - first)


@dataclass(frozen=True, eq=False)
class Palette:
    """Colours of one scene, RGB from 0 to 1."""

    sky_ramp: Floats
    """(steps, 3) from the top to the horizon."""
    land_ramp: Floats
    """(steps, 3) from far to near."""
    paper: Floats
    """(3,) the lightest."""
    ink: Floats
    """(3,) the darkest."""
    glow: Floats
    """(3,) colour of the sun, of lit windows and of accents."""

    @property
    def night(self) -> bool:
        """True if the sky is dark."""
        return luminance(self.sky_ramp[: _STEPS // 2].mean(axis=0)) < 0.42

    def sky(self, place: float) -> Floats:
        """Return the sky's colour: 0 is the top, 1 the horizon."""
        return _pick(self.sky_ramp, place)

    def land(self, depth: float) -> Floats:
        """Return the land's colour: 0 is far, 1 near."""
        return _pick(self.land_ramp, depth)

    def tint(self, color: Floats, amount: float) -> Floats:
        """Mix a colour with paper (amount > 0) or with ink (amount < 0)."""
        return mix(color, self.paper if amount > 0 else self.ink, abs(amount))

    def contrast(self, color: Floats, amount: float) -> Floats:
        """Mix a colour with paper or ink, whichever differs more from it in brightness."""
        lightness = luminance(color)
        lighter = luminance(self.paper) - lightness > lightness - luminance(self.ink)
        return self.tint(color, amount if lighter else -amount)

    def contrasting_ink(self, color: Floats, rng: np.random.Generator) -> Floats:
        """Draw a palette colour whose brightness differs from `color` by at least 0.22."""
        choices = [self.glow, self.paper, self.ink, self.land(0.9), self.land(0.5)]
        lightness = luminance(color)
        suitable = [each for each in choices if abs(luminance(each) - lightness) >= 0.22]
        if not suitable:
            return max(choices, key=lambda each: abs(luminance(each) - lightness))
        return suitable[rng.integers(len(suitable))]


def random_palette(rng: np.random.Generator) -> Palette:
    """Draw a palette: one of the prints with jittered hues and tones, perhaps inverted."""
    colors = _PRINTS[rng.integers(len(_PRINTS))].split()
    sky, land, inks = _parse(colors[:3]), _parse(colors[3:7]), _parse(colors[7:])
    if rng.random() < 0.35:
        # Exchange the tones of sky and land, so that neither is always the lighter one.
        sky, land = land[[3, 2, 1]], np.stack([land[1], land[0], sky[1], sky[2]])
        if abs(inks[2, 0] - sky[1, 0]) < 0.2:
            inks[2] = inks[0]
    turn = rng.uniform(-np.pi, np.pi) if rng.random() < 0.2 else rng.normal(0, 0.22)
    chroma = rng.uniform(0.65, 1.12)
    gamma, lift = rng.uniform(0.82, 1.22), rng.uniform(-0.03, 0.03)
    # numpy's vectorised sine may set floating-point flags for unused lanes.
    with np.errstate(over="ignore"):
        cosine, sine = chroma * np.cos(turn), chroma * np.sin(turn)
    spin = np.array([[1, 0, 0], [0, cosine, sine], [0, -sine, cosine]])

    def jittered(lab: Floats) -> Floats:
        moved: Floats = lab @ spin
        moved[:, 0] = np.clip(np.clip(moved[:, 0], 0, 1) ** gamma + lift, 0.05, 0.99)
        return moved

    paper, ink, glow = _to_rgb(jittered(inks))
    return Palette(_ramp(jittered(sky)), _ramp(jittered(land)), paper, ink, glow)

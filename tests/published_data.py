"""Folders of published data sets; tests are skipped where they are not at hand."""

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("SUPDOCNADE_DATA", Path(__file__).parents[2] / "shared" / "data"))


def published(name: str) -> Path:
    """Return the folder of a data set; where it is not at hand, skip the test."""
    if not (FOLDER / name).is_dir():
        pytest.skip(f"no {name} at hand: set SUPDOCNADE_DATA")
    return FOLDER / name

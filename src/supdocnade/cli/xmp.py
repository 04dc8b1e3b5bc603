"""Keywords in XMP sidecar files; photographs themselves are never written."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from supdocnade.cli.console import select_tags
from supdocnade.errors import StorageError
from supdocnade.folders.xmp_packet import UnusableXMP, add_keywords, new_packet, read_keywords

if TYPE_CHECKING:
    from supdocnade.scene.prediction import Prediction


class Sidecars:
    """Writer of the sidecars of photographs.

    Parameters
    ----------
    by_stem : name the sidecar of `a.jpg` `a.xmp`, as Adobe's programs do; otherwise `a.jpg.xmp`, as
        darktable and digiKam do.
    with_label : also write the class as a keyword, unless the prediction is unsure.
    dry_run : write nothing.
    """

    def __init__(self, *, by_stem: bool = False, with_label: bool = False, dry_run: bool = False):
        self.by_stem, self.with_label, self.dry_run = by_stem, with_label, dry_run
        self._owners: dict[str, str] = {}
        """Photograph of each sidecar, both as resolved paths."""

    def path_of(self, photograph: str) -> Path:
        """Return the path of the sidecar of a photograph."""
        path = Path(photograph)
        return path.with_suffix(".xmp") if self.by_stem else path.with_name(f"{path.name}.xmp")

    def keywords_of(self, prediction: "Prediction", top: int | None = None) -> list[str]:
        """Return the keywords for a prediction."""
        keywords = [tag for tag, _ in select_tags(prediction, top)]
        if self.with_label and prediction.label is not None and not prediction.unsure:
            keywords.insert(0, prediction.label)
        return list(dict.fromkeys(keywords))

    def write(self, prediction: "Prediction", top: int | None = None) -> str:
        """Add keywords to the sidecar of a photograph; return a message, "" if nothing changes.

        Raises
        ------
        StorageError : the sidecar also belongs to another photograph, is damaged, or cannot be
            written. It is then unchanged.
        """
        from supdocnade.storage import write_atomically

        path, keywords = self.path_of(prediction.name), self.keywords_of(prediction, top)
        real = os.path.realpath(prediction.name)
        owner = self._owners.setdefault(os.path.realpath(path), real)
        if owner != real:
            raise StorageError(f"{path} would hold the keywords of {owner} and {prediction.name}.")
        try:
            before = path.read_bytes() if os.path.lexists(path) else None
            after = new_packet(keywords) if before is None else add_keywords(before, keywords)
            existing = [] if before is None else read_keywords(before)
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror}.") from error
        except UnusableXMP as error:
            raise StorageError(f"{path} is left unchanged: {error}.") from error
        if not keywords or after == before:
            return ""
        if not self.dry_run:
            write_atomically(Path(os.path.realpath(path)), after)
        added = ", ".join(word for word in keywords if word not in existing)
        return f"{'would write' if self.dry_run else 'wrote'} {path}: {added}"

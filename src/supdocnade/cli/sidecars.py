"""Tags into `.xmp` files beside photographs; the photographs themselves are never written to."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from supdocnade.cli.formats import tags_of
from supdocnade.errors import StorageError

if TYPE_CHECKING:
    from supdocnade.scene.predictions import Prediction


class Sidecars:
    """Writes the sidecars of photographs, one after the other.

    Parameters
    ----------
    by_stem : `a.xmp` beside `a.jpg`, as Adobe's programs have it; otherwise `a.jpg.xmp`, as
        darktable and digiKam do.
    with_label : whether the class becomes a keyword too, unless it is unsure.
    dry_run : only say what would be written.
    """

    def __init__(self, *, by_stem: bool = False, with_label: bool = False, dry_run: bool = False):
        self.by_stem, self.with_label, self.dry_run = by_stem, with_label, dry_run
        self._owners: dict[str, str] = {}
        """Of every sidecar the photograph, both by the names they have without links."""

    def path_of(self, photograph: str) -> Path:
        """Return the sidecar of a photograph."""
        path = Path(photograph)
        return path.with_suffix(".xmp") if self.by_stem else path.with_name(f"{path.name}.xmp")

    def keywords_of(self, prediction: "Prediction", top: int | None = None) -> list[str]:
        """Return the keywords of a photograph."""
        keywords = [tag for tag, _ in tags_of(prediction, top)]
        if self.with_label and prediction.label is not None and not prediction.unsure:
            keywords.insert(0, prediction.label)
        return list(dict.fromkeys(keywords))

    def write(self, prediction: "Prediction", top: int | None = None) -> str:
        """Add the keywords of a photograph to its sidecar; return what was done, "" if nothing.

        Raises
        ------
        StorageError : the sidecar belongs to another photograph too, is damaged, or cannot be
            written. It is then as it was before.
        """
        from supdocnade.cli.xmp import UnusableXMP, add_keywords, new_packet, read_keywords
        from supdocnade.storage import write_atomically

        path, keywords = self.path_of(prediction.name), self.keywords_of(prediction, top)
        real = os.path.realpath(prediction.name)
        owner = self._owners.setdefault(os.path.realpath(path), real)
        if owner != real:
            raise StorageError(f"{path} would hold the keywords of {owner} and {prediction.name}.")
        try:
            before = path.read_bytes() if os.path.lexists(path) else None
            after = new_packet(keywords) if before is None else add_keywords(before, keywords)
            known = [] if before is None else read_keywords(before)
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror}.") from error
        except UnusableXMP as error:
            raise StorageError(f"{path} stays as it is: {error}.") from error
        if not keywords or after == before:
            return ""
        if not self.dry_run:
            write_atomically(Path(os.path.realpath(path)), after)
        added = ", ".join(word for word in keywords if word not in known)
        return f"{'would write' if self.dry_run else 'wrote'} {path}: {added}"

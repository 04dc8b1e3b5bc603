"""The server of a model, from its settings to its end."""

import os
from pathlib import Path

import typer

from supdocnade.cli.console import print_json, print_line, print_message
from supdocnade.cli.index import default_index
from supdocnade.cli.stopping import SECONDS, STOPPED, allow_seconds, print_stopped
from supdocnade.errors import StorageError
from supdocnade.gallery.photo_index import Gallery
from supdocnade.scene.corrections import CorrectionFile
from supdocnade.scene.persistence import load_scene
from supdocnade.scene.prediction import FittedScene
from supdocnade.serving import server
from supdocnade.serving.service import ServeSettings, Service


def serve_model(
    model: Path,
    index: Path | None,
    corrections: Path | None,
    address: tuple[str, int],
    settings: ServeSettings,
    *,
    json: bool,
    quiet: bool,
) -> None:
    """Load the model and serve it until a signal ends the server."""
    server.check_access(address[0], settings.token, allow_open=not settings.check_host)
    with server.bind(*address) as bound:
        fitted, _ = load_scene(model)
        gallery = _load_gallery(model, index, fitted, quiet=quiet)
        name = Path(os.path.abspath(model)).name
        file = None if corrections is None else CorrectionFile(corrections)
        service = Service(fitted, settings, name=name, gallery=gallery, corrections=file)
        service.warm_up()
        bound.listen(server.BACKLOG)  # Clients may connect as soon as the URL is printed.
        url = server.server_url(bound)
        if json:
            n_photographs = None if gallery is None else len(gallery)
            print_json({"url": url, "model": name, "gallery": n_photographs})
        elif not quiet:
            print_line(f"Serving {name} at {url} (press Ctrl-C to stop)")
        allow_seconds(server.SHUTDOWN_SECONDS + SECONDS)
        interrupted = server.serve(service, bound)
    if interrupted:
        raise typer.Exit(STOPPED)
    if not quiet:
        print_stopped()


def _load_gallery(
    model: Path, index: Path | None, fitted: FittedScene, *, quiet: bool
) -> Gallery | None:
    """Return the gallery of an index; None if the default index is missing or cannot be used."""
    folder = default_index(model) if index is None else index
    if index is None and not folder.exists():
        return None
    try:
        gallery = Gallery.load(folder, fitted)
    except StorageError as error:  # Such as the index of a model that was replaced.
        if index is not None:
            raise
        if not quiet:
            print_message(f"note: there is no gallery: {error}")
        return None
    if not gallery.is_complete and not quiet:
        print_message(f"note: {folder} is not complete; run supdocnade index again.")
    return gallery

"""`supdocnade serve`: a web page and a REST API."""

from collections.abc import Sequence
from pathlib import Path

from joblib import effective_n_jobs

from supdocnade.cli.archive import default_index
from supdocnade.cli.console import print_json, print_line, print_message
from supdocnade.cli.model_commands import Serve
from supdocnade.cli.stopping import SECONDS, STOPPED, allow_seconds, print_stopped
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.gallery.photo_index import Gallery
from supdocnade.scene.corrections import CorrectionFile
from supdocnade.scene.persistence import load_scene
from supdocnade.scene.prediction import FittedScene
from supdocnade.serving import server
from supdocnade.serving.service import ServeSettings, Service

MEGA = 1_000_000


def serve(options: Serve) -> int:
    """Load the model and serve it until a signal ends the server; return the exit code."""
    model, settings = options.model, serve_settings(options)
    server.check_access(options.host, settings.token, allow_open=options.allow_open)
    check_photos(options.photos or (), settings)
    with server.bind(options.host, options.port) as bound:
        fitted = load_scene(model)
        gallery = _load_gallery(model, options.index, fitted, quiet=options.quiet)
        file = None if options.corrections is None else CorrectionFile(options.corrections)
        photos = options.photos or ()
        service = Service(
            fitted, settings, folder=model, gallery=gallery, corrections=file, photos=photos
        )
        service.warm_up()
        bound.listen(server.BACKLOG)  # Clients may connect as soon as the URL is printed.
        url = server.server_url(bound)
        if options.json:
            n_photographs = None if gallery is None else len(gallery)
            print_json({"url": url, "model": service.name, "gallery": n_photographs})
        elif not options.quiet:
            print_line(f"Serving {service.name} at {url} (press Ctrl-C to stop)")
        allow_seconds(server.SHUTDOWN_SECONDS + SECONDS)
        interrupted = server.serve(service, bound)
    if not interrupted and not options.quiet:
        print_stopped()
    return STOPPED if interrupted else 0


def check_photos(photos: Sequence[Path], settings: ServeSettings) -> None:
    """Raise unless photographs can be opened on this machine alone, or with the token."""
    for folder in photos:
        if not folder.is_dir():
            raise StorageError(f"there is no folder {folder}, which --photos names.")
    is_open = not (settings.check_host and all(map(server.is_loopback, settings.allowed_hosts)))
    if photos and settings.token is None and is_open:
        raise InvalidArgument(
            "--photos needs a token (SUPDOCNADE_TOKEN), since others can reach this server."
        )


def serve_settings(options: Serve) -> ServeSettings:
    """Return the settings of the server."""
    return ServeSettings(
        token=options.token,
        allowed_hosts=tuple(
            filter(None, f"{options.host},{options.allow_host}".lower().split(","))
        ),
        check_host=not options.allow_open,
        max_request_bytes=int(options.max_megabytes * MEGA),
        max_images=options.max_images,
        max_pixels=int(options.max_megapixels * MEGA),
        seconds=options.timeout,
        n_workers=effective_n_jobs(options.jobs),
    )


def _load_gallery(
    model: Path, index: Path | None, fitted: FittedScene, *, quiet: bool
) -> Gallery | None:
    """Return the gallery of an index; None if the default index is missing or cannot be used."""
    folder = default_index(model) if index is None else index
    if index is None and not folder.exists():
        return None
    try:
        return Gallery.load(folder, fitted)
    except StorageError as error:  # Such as the index of a model that was replaced.
        if index is not None:
            raise
        if not quiet:
            print_message(f"note: there is no gallery: {error}")
        return None

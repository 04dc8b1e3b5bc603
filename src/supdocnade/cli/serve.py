"""`supdocnade serve`: a web page and a REST API."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from supdocnade.cli.console import note, say, say_json
from supdocnade.cli.index import index_of
from supdocnade.cli.options import Debug, Jobs, Json, Model, Quiet
from supdocnade.errors import BackendUnavailable, InvalidArgument

NEEDED = ("fastapi", "uvicorn", "multipart", "prometheus_client")
MEGA, MOST_MEGA = 1_000_000, 100_000


def serve(
    model: Model,
    index: Annotated[
        Path | None,
        typer.Option("--index", help="An index for the gallery; otherwise MODEL.index if there."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to serve at; otherwise this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="SUPDOCNADE_TOKEN",
            show_envvar=False,
            help="Ask for this token; better set as SUPDOCNADE_TOKEN, which others do not see.",
        ),
    ] = None,
    allow_open: Annotated[
        bool, typer.Option("--allow-open", help="Serve others, too, without a token.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A further name that the server goes by, such as a proxy's."),
    ] = None,
    max_megabytes: Annotated[
        float, typer.Option(min=0.001, max=MOST_MEGA, help="Of a request.")
    ] = 64,
    max_megapixels: Annotated[
        float, typer.Option(min=0.001, max=MOST_MEGA, help="Of an image.")
    ] = 64,
    max_images: Annotated[int, typer.Option(min=1, help="Of a request.")] = 32,
    queue: Annotated[int, typer.Option(min=1, help="Images that may wait.")] = 256,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds to send a request, and to answer.")
    ] = 30,
    jobs: Jobs = -1,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Serve a web page and a REST API for a model.

    Drop photographs on the page and see their classes and tags, and why; nothing is stored, and
    nothing leaves this machine. Programs ask POST /v1/predict; /docs describes all of it. Ctrl-C
    or SIGTERM finishes what was begun and ends.

    \b
    Examples:
      supdocnade serve scenes
      supdocnade serve scenes --index holiday.index --port 8080
      SUPDOCNADE_TOKEN=secret supdocnade serve scenes --host 0.0.0.0
    """
    _check_extra()
    from joblib import effective_n_jobs

    from supdocnade.gallery import Gallery
    from supdocnade.scene.model import SceneModel
    from supdocnade.serving import server
    from supdocnade.serving.limits import ServeSettings
    from supdocnade.serving.service import Service

    server.check_access(host, token, allow_open=allow_open)
    if queue < max_images:
        raise InvalidArgument(
            f"--queue must be at least --max-images, {max_images}, got {queue}: "
            "a largest request must find room."
        )
    n_bytes = int(max_megabytes * MEGA)
    settings = ServeSettings(
        token=token,
        allowed_hosts=tuple(name.lower() for name in (host, *(allow_host or ()))),
        check_host=not allow_open,
        max_request_bytes=n_bytes,
        max_held_bytes=4 * n_bytes,
        max_images=max_images,
        max_pixels=int(max_megapixels * MEGA),
        max_waiting=queue,
        upload_seconds=timeout,
        answer_seconds=timeout,
        n_workers=effective_n_jobs(jobs),
    )
    with server.bind(host, port) as bound:
        fitted = SceneModel.load(model).fitted_
        place = index_of(model) if index is None else index
        gallery = None
        if index is not None or place.exists():
            gallery = Gallery.load(place, fitted)
        name = Path(os.path.abspath(model)).name
        service = Service(fitted, settings, name=name, gallery=gallery)
        service.warm_up(server.small_image())
        bound.listen(server.BACKLOG)  # Whoever reads the address may ask at once.
        address = server.address_of(bound)
        if json:
            say_json({"url": address, "model": name, "gallery": gallery and len(gallery)})
        elif not quiet:
            say(f"{name} is served at {address} (Ctrl-C ends it)")
        interrupted = server.serve(service, bound)
    if not quiet:
        note("ended.")
    if interrupted:
        raise typer.Exit(130)


def _check_extra() -> None:
    """Say what to install where the extra is missing."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise BackendUnavailable(
            "serving needs an extra that is not installed: pip install 'supdocnade[serve]' "
            f"({missing[0]} is missing)."
        )

"""`supdocnade serve`: a web page and a REST API."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from supdocnade.cli import options as opt
from supdocnade.errors import BackendUnavailable, InvalidArgument, install_command

REQUIRED = ("fastapi", "uvicorn", "multipart", "prometheus_client")
MEGA, MAX_MEGA = 1_000_000, 100_000

Index = Annotated[
    Path | None,
    typer.Option("--index", help="Index for the gallery; by default MODEL.index, if it exists."),
]
Corrections = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Let the page correct classes and tags, and append them to this .jsonl file, for "
        "train --add; by default nothing is kept.",
    ),
]
Host = Annotated[
    str, typer.Option(help="Address to listen on; by default only this machine is served.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any free port.")]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="SUPDOCNADE_TOKEN",
        show_envvar=False,
        help="Require this token; better set as SUPDOCNADE_TOKEN, which other users cannot see.",
    ),
]
AllowOpen = Annotated[
    bool, typer.Option("--allow-open", help="Serve other machines without a token.")
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(help="Additional host name of the server, such as that of a proxy."),
]
MaxMegabytes = Annotated[
    float, typer.Option(min=0.001, max=MAX_MEGA, help="Largest request in megabytes.")
]
MaxMegapixels = Annotated[
    float, typer.Option(min=0.001, max=MAX_MEGA, help="Largest image in megapixels.")
]
MaxImages = Annotated[int, typer.Option(min=1, help="Images per request.")]
Queue = Annotated[int, typer.Option(min=1, help="Images that may wait.")]
Timeout = Annotated[
    float, typer.Option(min=0.1, help="Seconds to send a request, and to process it.")
]


def serve(
    model: opt.Model,
    index: Index = None,
    corrections: Corrections = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Token = None,
    allow_open: AllowOpen = False,
    allow_host: AllowHost = None,
    max_megabytes: MaxMegabytes = 64,
    max_megapixels: MaxMegapixels = 64,
    max_images: MaxImages = 32,
    queue: Queue = 256,
    timeout: Timeout = 30,
    jobs: opt.Jobs = -1,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Serve a web page and a REST API for a model.

    Drop photographs on the page to see their classes and tags, with explanations. Nothing is
    stored, except by --corrections, and nothing leaves this machine. Programs use POST /v1/predict;
    /docs describes the API. SIGTERM finishes the requests in progress and stops the server;
    Ctrl-C stops it within two seconds.

    \b
    Examples:
      supdocnade serve scenes
      supdocnade serve scenes --index holiday.index --port 8080
      supdocnade serve scenes --corrections corrections.jsonl
      SUPDOCNADE_TOKEN=secret supdocnade serve scenes --host 0.0.0.0
    """
    _check_extra()
    from joblib import effective_n_jobs

    from supdocnade.cli.run_serve import serve_model
    from supdocnade.serving.service import ServeSettings

    if queue < max_images:
        raise InvalidArgument(
            f"--queue must be at least --max-images, {max_images}, got {queue}: "
            "the queue must have room for the largest request."
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
    serve_model(model, index, corrections, (host, port), settings, json=json, quiet=quiet)


def _check_extra() -> None:
    missing = [name for name in REQUIRED if find_spec(name) is None]
    if missing:
        raise BackendUnavailable(
            f"serving needs an extra that is not installed: {install_command('serve')} "
            f"({missing[0]} is missing)."
        )

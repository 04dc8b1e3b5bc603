"""The routes that need no model: the page and its files, the documents, health and figures."""

from importlib import resources
from pathlib import PurePosixPath

from fastapi import APIRouter, Response

from supdocnade.serving.problems import KINDS, Problem
from supdocnade.serving.schemas import StatusOut
from supdocnade.serving.service import Service

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def page_files() -> dict[str, bytes]:
    """Return the files of the page by their names, read once: no request names a path.

    The report's styles are the page's, too: they are siblings.
    """
    folders = resources.files("supdocnade.serving"), resources.files("supdocnade.evaluation")
    files = [*(folders[0] / "page").iterdir(), folders[1] / "templates" / "report.css"]
    return {
        each.name: each.read_bytes()
        for each in files
        if PurePosixPath(each.name).suffix in MEDIA_TYPES
    }


def page_routes(service: Service) -> APIRouter:
    """Return the routes of the page, of health and of figures."""
    routes = APIRouter()
    files = page_files()

    def file(name: str) -> Response:
        if name not in files:
            raise Problem("not_found", "there is nothing at this address.")
        media_type = MEDIA_TYPES[PurePosixPath(name).suffix]
        return Response(files[name], media_type=media_type, headers={"Cache-Control": "no-cache"})

    @routes.get("/", include_in_schema=False)
    async def page() -> Response:
        return file("index.html")

    @routes.get("/docs", include_in_schema=False)
    async def documents() -> Response:
        return file("docs.html")

    @routes.get("/page/{name}", include_in_schema=False)
    async def page_file(name: str) -> Response:
        return file(name)

    @routes.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return file("icon.svg")

    @routes.get("/problems", include_in_schema=False)
    async def problems() -> dict[str, tuple[int, str]]:
        return dict(KINDS)

    @routes.get("/healthz", tags=["server"])
    async def healthz() -> StatusOut:
        """Say that the server is there."""
        return StatusOut(status="ok")

    @routes.get(
        "/readyz",
        tags=["server"],
        responses={503: {"model": StatusOut, "description": "Not, or no longer."}},
    )
    async def readyz(response: Response) -> StatusOut:
        """Say whether new work is taken."""
        response.status_code = 200 if service.ready else 503
        return StatusOut(status="ready" if service.ready else "ending")

    @routes.get(
        "/metrics",
        tags=["server"],
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics() -> Response:
        """Give figures for Prometheus."""
        return Response(service.metrics.text(), media_type=service.metrics.media_type)

    return routes

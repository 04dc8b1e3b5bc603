"""The web application: all routes, and every error as a problem."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException

from supdocnade import __version__
from supdocnade.serving.browse_routes import browse_routes
from supdocnade.serving.predict_routes import image_routes
from supdocnade.serving.problems import KINDS, Problem
from supdocnade.serving.schemas import ImageIn, StatusOut
from supdocnade.serving.schemas import Problem as ProblemOut
from supdocnade.serving.security import Guard
from supdocnade.serving.service import Service

# The routes that need no model: the page and its files, the documents, health and figures.

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
    folders = resources.files("supdocnade.serving"), resources.files("supdocnade.report")
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


DESCRIPTION = """Classes and tags of photographs, and why. Errors are problems as RFC 9457 has them:
a code for programs, a sentence for people, and the name of the file."""


def make_app(service: Service) -> FastAPI:
    """Return the application of a service.

    Parameters
    ----------
    service : that answers; it is closed when the application ends.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.draining = True
        service.close()

    app = FastAPI(
        title="supdocnade",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    for routes in (image_routes(service), browse_routes(service), page_routes(service)):
        app.include_router(routes)

    @app.exception_handler(Problem)
    async def problem(request: Request, error: Problem) -> Response:
        return error.response()

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = first["loc"][-1]
        return Problem("invalid_argument", f"{where}: {first['msg']}.").response()

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code)
        sentence = {
            "not_found": "there is nothing at this address.",
            "method_not_allowed": "this address does not take this method.",
        }.get(code or "", str(error.detail))
        return Problem(code or "invalid_request", sentence, headers=error.headers).response()

    app.add_middleware(Guard, service=service)
    app.openapi = lambda: _described(app, service)  # type: ignore[method-assign]
    return app


def _described(app: FastAPI, service: Service) -> dict[str, Any]:
    """Return the OpenAPI description; FastAPI knows neither our bodies nor our problems."""
    if app.openapi_schema is None:
        found = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
        )
        schemas = found.setdefault("components", {}).setdefault("schemas", {})
        template = "#/components/schemas/{model}"
        for schema in (ProblemOut, ImageIn):
            schemas[schema.__name__] = schema.model_json_schema(ref_template=template)
            schemas[schema.__name__].pop("$defs", None)
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        if service.settings.token is not None:
            found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            for path, operations in found["paths"].items():
                if path.startswith("/v1/") or path == "/metrics":
                    for operation in operations.values():
                        operation["security"] = [{"token": []}]
        app.openapi_schema = found
    return app.openapi_schema

"""The web application: all routes, and every error as a problem."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException

from supdocnade import __version__
from supdocnade.serving.api import image_routes
from supdocnade.serving.browse import browse_routes
from supdocnade.serving.guard import Guard
from supdocnade.serving.pages import page_routes
from supdocnade.serving.problems import Problem
from supdocnade.serving.schemas import ImageIn
from supdocnade.serving.schemas import Problem as ProblemOut
from supdocnade.serving.service import Service

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

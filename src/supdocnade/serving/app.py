"""The web application: its routes, access control, error responses and OpenAPI description."""

import hmac
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from h11 import LocalProtocolError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from supdocnade import __version__
from supdocnade.serving.browse_routes import browse_routes
from supdocnade.serving.photo_routes import photo_routes
from supdocnade.serving.predict_routes import image_routes
from supdocnade.serving.problems import PROBLEM_TYPES, ApiError, Problem, openapi_responses
from supdocnade.serving.service import Service

IMAGE_ROUTES = frozenset(("/v1/predict", "/v1/explain", "/v1/similar", "/v1/preview"))
"""Routes that take images; a test compares them with the OpenAPI description."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")
CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

log = logging.getLogger(__name__)

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
DESCRIPTION = """Classes and tags of photographs, with explanations. Errors follow
RFC 9457: a code for programs, a sentence for people, and the name of the file."""
METHODS = ("GET", "HEAD", "POST")
NOT_FOUND = "there is nothing at this URL."


def page_files() -> dict[str, bytes]:
    """Return the files of the page by name; no request ever opens a path.

    The page also uses the style sheet of the report.
    """
    page = resources.files("supdocnade.serving") / "page"
    style = resources.files("supdocnade.report") / "templates" / "report.css"
    return {
        file.name: file.read_bytes()
        for file in (*page.iterdir(), style)
        if PurePosixPath(file.name).suffix in MEDIA_TYPES
    }


def page_routes(service: Service) -> APIRouter:
    """Return the routes that need no model: the page, the API documentation, health."""
    routes = APIRouter()
    files = page_files()

    def file_response(name: str) -> Response:
        if name not in files:
            raise ApiError("not_found", NOT_FOUND)
        media_type = MEDIA_TYPES[PurePosixPath(name).suffix]
        return Response(files[name], media_type=media_type, headers={"Cache-Control": "no-cache"})

    @routes.get("/", include_in_schema=False)
    async def page() -> Response:
        return file_response("index.html")

    @routes.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return file_response("docs.html")

    @routes.get("/page/{name}", include_in_schema=False)
    async def page_file(name: str) -> Response:
        return file_response(name)

    @routes.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return file_response("icon.svg")

    @routes.get("/problems", include_in_schema=False)
    async def problems() -> dict[str, tuple[int, str]]:
        return PROBLEM_TYPES

    @routes.get("/healthz", tags=["server"])
    async def healthz() -> dict[str, str]:
        """Report that the server is running."""
        return {"status": "ok"}

    @routes.get(
        "/readyz",
        tags=["server"],
        responses={503: {"description": "The server is shutting down, or no worker is free."}},
    )
    async def readyz(response: Response) -> dict[str, str]:
        """Report whether the server accepts new requests."""
        response.status_code = 200 if service.ready else 503
        return {"status": "ready" if service.ready else "ending" if service.draining else "busy"}

    return routes


async def refuse_unknown(request: Request) -> None:
    """Refuse parameters of the URL that a route does not have, such as misspelt ones."""
    known = [each.alias for each in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in known:
            there = f"there are {', '.join(known)}" if known else "there are none"
            raise ApiError("invalid_argument", f"there is no parameter {name[:50]!r}; {there}.")


def make_app(service: Service) -> FastAPI:
    """Return the web application; it closes the service when it shuts down."""

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
        openapi_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    refusals = openapi_responses("unauthorized", "foreign_page", "unknown_host")
    for make_routes in (image_routes, browse_routes, photo_routes):
        routes, checks = make_routes(service), [Depends(refuse_unknown)]
        app.include_router(routes, prefix="/v1", responses=refusals, dependencies=checks)
    app.include_router(page_routes(service))

    @app.exception_handler(ApiError)
    async def api_error(request: Request, error: ApiError) -> Response:
        return error.response()

    @app.exception_handler(RequestValidationError)
    async def validation_error(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return ApiError("invalid_argument", f"{first['loc'][-1]}: {first['msg']}.").response()

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        code, detail = {
            404: ("not_found", NOT_FOUND),
            405: ("method_not_allowed", "this URL does not support this method."),
        }.get(error.status_code, ("invalid_request", str(error.detail)))
        headers = dict(error.headers or {})
        if error.status_code == 405:  # Starlette lists the methods of one route of this URL.
            headers["Allow"] = ", ".join(_allowed_methods(app, request))
        return ApiError(code, detail, headers=headers).response()

    @cache  # Many requests for it must not keep the server busy.
    def description() -> bytes:
        return json.dumps(app.openapi()).encode()

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return Response(description(), media_type="application/json")

    app.add_middleware(SecurityMiddleware, service=service)
    app.openapi = lambda: _openapi(app, service)  # type: ignore[method-assign]
    return app


def _allowed_methods(app: FastAPI, request: Request) -> list[str]:
    """Return the methods of all routes with the URL of a request."""
    return [
        method
        for method in METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in app.routes
        )
    ]


def _openapi(app: FastAPI, service: Service) -> dict[str, Any]:
    """Return the OpenAPI description, with the request bodies and errors that FastAPI lacks."""
    if app.openapi_schema is None:
        description = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
        )
        schemas = description.setdefault("components", {}).setdefault("schemas", {})
        schemas["Problem"] = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas["Problem"].pop("$defs", None)
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        if service.settings.token is not None:
            bearer = {"token": {"type": "http", "scheme": "bearer"}}
            description["components"]["securitySchemes"] = bearer
            for path, operations in description["paths"].items():
                if path.startswith("/v1/"):
                    for operation in operations.values():
                        operation["security"] = [{"token": []}]
        app.openapi_schema = description
    return app.openapi_schema


class SecurityMiddleware:
    """ASGI middleware around the application."""

    def __init__(self, app: ASGIApp, service: Service):
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            self._check_access(scope)
            if scope["path"] in IMAGE_ROUTES and scope["method"] == "POST":
                # Before the body is read, so that a refusal costs little under load.
                await self._service.admit()
            await self._app(scope, receive, send_with_headers)
        except ApiError as error:
            await error.response()(scope, receive, send_with_headers)
        except LocalProtocolError:
            pass  # The client broke the protocol, and h11 has answered.
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if has_started:  # The connection is closed instead.
                raise
            failure = ApiError("internal_error", "the server failed; see its log.")
            await failure.response()(scope, receive, send_with_headers)

    def _check_access(self, scope: Scope) -> None:
        settings, headers = self._service.settings, Headers(scope=scope)
        # The other routes reveal nothing about the model or anyone's photographs.
        private = scope["path"].startswith("/v1/")
        if settings.token is None:
            if settings.check_host:
                _check_host(headers, settings.allowed_hosts)
        elif private and not _has_token(headers, settings.token):
            raise ApiError(
                "unauthorized",
                "the header Authorization must be 'Bearer' and this server's token.",
                headers={"WWW-Authenticate": 'Bearer realm="supdocnade"'},
            )
        foreign_site = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        if private and (foreign_site or _is_foreign_origin(headers)):
            raise ApiError("foreign_page", "pages of other origins may not use this server.")


def _has_token(headers: Headers, token: str) -> bool:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    equal = hmac.compare_digest(value.strip().encode("utf-8", "replace"), token.encode())
    return scheme.lower() == "bearer" and equal


def _check_host(headers: Headers, allowed: tuple[str, ...]) -> None:
    """Refuse host names that a foreign page may have made to resolve to this machine."""
    host = host_name(headers.get("host", ""))
    if host not in LOOPBACK and host not in allowed:
        raise ApiError(
            "unknown_host",
            f"this server does not accept the host name {host[:100]!r}; to accept it, start the "
            "server with --set allow_host=NAME.",
        )


def _is_foreign_origin(headers: Headers) -> bool:
    """Return whether a page of another host made a request; ports may differ behind a proxy."""
    origin = headers.get("origin", "null")
    host = origin.partition("://")[2]
    return origin != "null" and host_name(host) != host_name(headers.get("host", ""))


def host_name(host: str) -> str:
    """Return the name in a Host header, without the port.

    >>> host_name("LocalHost:8000"), host_name("[::1]:8000")
    ('localhost', '::1')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()

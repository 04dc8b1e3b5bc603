"""Around every request: who may ask, what is counted, and headers that keep browsers safe."""

import hmac
import logging
from time import perf_counter

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from supdocnade.serving.problems import Problem
from supdocnade.serving.service import Service

METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
"""Counted by name: clients may make up others, and every name that is counted stays in memory."""

IMAGE_ROUTES = frozenset(("/v1/predict", "/v1/explain", "/v1/similar"))
"""Those that images are sent to; a test compares them with the description."""

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
SAFE_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

log = logging.getLogger(__name__)


class Guard:
    """An ASGI layer around the application."""

    def __init__(self, app: ASGIApp, service: Service):
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = perf_counter(), 0

        async def send_safely(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in SAFE_HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            self._check(scope)
            if scope["path"] in IMAGE_ROUTES and scope["method"] == "POST":
                # Here, before any of it is read: under load most of the work would be refusing.
                await self._service.admit()
            await self._app(scope, receive, send_safely)
        except Problem as problem:
            await problem.response()(scope, receive, send_safely)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if status:  # Half of an answer is out: the connection breaks, and says so.
                raise
            mistake = Problem("internal_error", "the server made a mistake; its log says which.")
            await mistake.response()(scope, receive, send_safely)
        finally:
            known = scope["path"] if scope["path"] in IMAGE_ROUTES else "other"
            route = getattr(scope.get("route"), "path", known)
            metrics = self._service.metrics
            method = scope["method"] if scope["method"] in METHODS else "other"
            metrics.requests.labels(method, route, str(status)).inc()
            metrics.seconds.labels(route).observe(perf_counter() - began)

    def _check(self, scope: Scope) -> None:
        """Raise a `Problem` for requests of those who may not ask."""
        settings, headers, path = self._service.settings, Headers(scope=scope), scope["path"]
        if settings.token is None:
            if settings.check_host:
                _check_host(headers, settings.allowed_hosts)
        elif _is_private(path) and not _has_token(headers, settings.token):
            raise Problem(
                "unauthorized",
                "the header Authorization must be 'Bearer' and this server's token.",
                headers={"WWW-Authenticate": 'Bearer realm="supdocnade"'},
            )
        if _is_private(path) and headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            raise Problem("foreign_page", "pages of other origins may not ask this server.")


def _is_private(path: str) -> bool:
    """Whether an address needs the token; the others say nothing about anyone's photographs."""
    return path.startswith("/v1/") or path == "/metrics"


def _has_token(headers: Headers, token: str) -> bool:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
    return scheme.lower() == "bearer" and same


def _check_host(headers: Headers, allowed: tuple[str, ...]) -> None:
    """Refuse names that a foreign page may have made to lead here."""
    host = host_name(headers.get("host", ""))
    if host not in LOOPBACK and host not in allowed:
        raise Problem(
            "unknown_host",
            f"this server does not go by the name {host[:100]!r}; if it should, start it with "
            "--allow-host and that name.",
        )


def host_name(host: str) -> str:
    """Return the name in a header Host, without the port.

    >>> host_name("LocalHost:8000"), host_name("[::1]:8000")
    ('localhost', '::1')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()

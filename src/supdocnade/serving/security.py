"""Access control and security headers of every request."""

import hmac
import logging

from h11 import LocalProtocolError
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from supdocnade.serving.problems import ApiError
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
            "server with --allow-host and that name.",
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

"""Connections: closed where nothing begins, and read on for a moment where an answer came early."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 15.0
"""For the head of a request, from when the connection is there."""

LINGER_SECONDS = 2.0
"""How long what is still sent after the answer is taken, so that the client sees the answer."""


class Connection(H11Protocol):
    """Closes connections on which no request begins; `uploads` watches those that have begun."""

    _alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch."""
        super().connection_made(transport)
        self.transport = self._lingering = _Lingering(transport, self)  # type: ignore[assignment]
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Read on, unless what comes is not wanted any more."""
        if self._lingering.lingers:
            return
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Watch no more."""
        self._stop_watch()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for another request."""
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        """Set the alarm while a request's head is waited for, however slowly it comes."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_watch()
        elif self._alarm is None:
            self._alarm = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_watch(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


class _Lingering:
    """A transport that is closed for writing alone while a request is still being sent.

    A request may be answered before its body has come: too much waits, or it is too large. Were the
    connection closed then, the client's system would be told that its bytes were not taken, and
    might throw away the answer. So what comes is taken for a moment, and thrown away unread.
    """

    def __init__(self, transport: asyncio.Transport, connection: Connection):
        self._transport, self._connection = transport, connection
        self.lingers = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self.lingers or self._transport.is_closing()

    def close(self) -> None:
        if self._transport.is_closing() or self._connection.conn.their_state is not h11.SEND_BODY:
            self._transport.close()
        elif not self.lingers:
            self.lingers = True
            self._transport.write_eof()
            self._transport.resume_reading()
            self._connection.loop.call_later(LINGER_SECONDS, self._transport.close)

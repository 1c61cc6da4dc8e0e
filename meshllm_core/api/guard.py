"""Keeps web pages away from servers on loopback: Host and Origin must name this node.

A page may point its own domain at 127.0.0.1 (DNS rebinding) or post to http://localhost directly. In
both cases the browser says so, in `Host` or in `Origin`, and a page cannot change either.
"""

from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from meshllm_core.api.openai.errors import envelope
from meshllm_core.errors import HostRefused

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of this machine as seen from itself."""

ANY_HOST = "*"
"""In `allowed_hosts`: every Host is accepted (a node bound to other interfaces on purpose)."""


class HostGuard:
    """ASGI middleware that answers 403 unless Host, and Origin where there is one, are allowed.

    `allowed_hosts` are names or addresses without a port (IPv6 without brackets); any port is accepted.
    With `ANY_HOST` every Host passes and an Origin must be of the very host that was asked.
    """

    def __init__(self, app: ASGIApp, *, allowed_hosts: frozenset[str]) -> None:
        self._app = app
        self._allowed = frozenset(host.lower() for host in allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope["headers"])
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "host_refused"})
        else:
            await _refuse(send, refusal)

    def _refusal(self, headers: list[tuple[bytes, bytes]]) -> HostRefused | None:
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        host = host_name(hosts[0]) if len(hosts) == 1 else None
        if host is None:
            return HostRefused("The request needs exactly one valid Host header.", hint="Use the node's URL.")
        allowed = self._allowed
        if ANY_HOST in allowed:
            allowed = LOOPBACK_HOSTS if host in LOOPBACK_HOSTS else frozenset({host})
        elif host not in allowed:
            return HostRefused(
                f"The Host {host[:200]!r} is not this node.",
                hint=f"Use one of: {', '.join(sorted(allowed))}.",
            )
        for name, value in headers:
            if name == b"origin" and _origin_host(value.decode("latin-1")) not in allowed:
                return HostRefused(
                    f"Pages from {value[:200].decode('latin-1')!r} may not call this node.",
                    hint="Call it from a program on this machine, or from a page that this machine serves.",
                )
        return None


def host_name(authority: str) -> str | None:
    """Host of a `Host` header in lower case, without port and brackets; None if it is not valid."""
    if not authority or any(c in authority for c in "/\\@?#, \t"):
        return None
    try:
        parts = urlsplit(f"//{authority}")
        _ = parts.port
    except ValueError:
        return None
    return parts.hostname.rstrip(".") or None if parts.hostname else None


def _origin_host(origin: str) -> str | None:
    scheme, separator, authority = origin.partition("://")
    if not separator or scheme.lower() not in {"http", "https"}:
        return None
    return host_name(authority)


async def _refuse(send: Send, error: HostRefused) -> None:
    body = envelope(error)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": error.http_status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

"""Who may see the dashboard in a browser: those who have the address with its token, from that address only.

Whoever sees the dashboard can do all that its owner can. So each request must name the host that was
printed (no other name that leads here), a page of another site gets nothing (Origin), and without the
cookie, which only the token gives, nothing is answered at all.
"""

import hmac
import secrets
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

TOKEN_LIMIT = 256
"""Characters of a token or cookie that are looked at."""


class Guard:
    """Checks each request before anything else does."""

    def __init__(self, urls: tuple[str, ...], token: str) -> None:
        """`urls`: scheme, host and port under which the dashboard is reached, the printed one first."""
        self._origins = {f"{parts.scheme}://{parts.netloc}": parts.netloc for parts in map(urlsplit, urls)}
        self._token = token
        self._session = secrets.token_urlsafe(32)
        self._secure = urls[0].startswith("https:")
        # Cookies know no ports: another program's on this host must not take this one's place.
        self._cookie = f"meshllm-{secrets.token_hex(4)}"

    def origin(self, request: web.Request) -> str:
        """Scheme, host and port that the browser was given."""
        return next(origin for origin, host in self._origins.items() if host == request.host)

    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer, or refuse with the reason in words."""
        refusal = self._refusal(request)
        if refusal is not None:
            response: web.StreamResponse = refusal
        elif request.path == "/" and (given := request.query.get("token")) is not None:
            response = self._enter(given)
        elif not self._is_known(request):
            response = _refuse(
                401,
                "Open the address that `meshllm web` printed, with its token; each start makes a new one.",
            )
        else:
            try:
                response = await handler(request)
            except web.HTTPException as error:
                self._shield(request, error)
                raise
        if not response.prepared:
            self._shield(request, response)
        return response

    def _refusal(self, request: web.Request) -> web.Response | None:
        if request.host not in self._origins.values():
            return _refuse(421, "This is not the address that `meshllm web` printed.")
        origin = request.headers.get("Origin")
        if origin is not None and self._origins.get(origin) != request.host:
            return _refuse(403, "A page of another site may not use this dashboard.")
        if origin is None and request.headers.get("Upgrade", "").lower() == "websocket":
            # A browser always tells it.
            return _refuse(403, "A WebSocket must name its Origin.")
        return None

    def _is_known(self, request: web.Request) -> bool:
        return _same(request.cookies.get(self._cookie, ""), self._session)

    def _enter(self, token: str) -> web.Response:
        """The token for a cookie; the token does not stay in the address."""
        if not _same(token, self._token):
            return _refuse(401, "This token is not right: take the address that `meshllm web` printed last.")
        response = web.Response(status=303, headers={"Location": "/"})
        response.set_cookie(
            self._cookie, self._session, httponly=True, samesite="Strict", secure=self._secure, path="/"
        )
        return response

    def _shield(self, request: web.Request, response: web.StreamResponse) -> None:
        headers = response.headers
        headers.setdefault("Cache-Control", "no-store")
        headers["Referrer-Policy"] = "no-referrer"
        headers["X-Content-Type-Options"] = "nosniff"
        headers["X-Frame-Options"] = "DENY"
        host = request.host if request.host in self._origins.values() else ""
        sockets = f" ws://{host} wss://{host}" if host else ""
        headers["Content-Security-Policy"] = (
            "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
            f"img-src 'self' data:; connect-src 'self'{sockets}; frame-ancestors 'none'; base-uri 'none'"
        )


def _refuse(status: int, words: str) -> web.Response:
    return web.Response(status=status, text=f"{words}\n")


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given[:TOKEN_LIMIT].encode(), wanted.encode())

"""Around every route: the request's id, and the key where one is set. Pure ASGI: streams pass untouched."""

import hmac
import re
import uuid

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from meshllm_core.api.openai.errors import REQUEST_ID, error_response
from meshllm_core.errors import NotAuthorized
from meshllm_core.ids import RequestId

_UUID = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_OPEN = frozenset({"/health", "/healthz", "/readyz"})
"""Paths that a supervisor may ask without the key."""


class RequestIds:
    """Gives every request an id, the client's own where it is a UUID, and every answer its `x-request-id`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        identity = given.decode().lower() if _UUID.fullmatch(given) else str(uuid.uuid4())
        scope[REQUEST_ID] = RequestId(identity)
        header = (b"x-request-id", identity.encode())

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), header]}
            await send(message)

        await self._app(scope, receive, send_with_id)


class ApiKey:
    """Answers 401 unless the bearer token is the key; health needs none."""

    def __init__(self, app: ASGIApp, *, key: str) -> None:
        self._app = app
        self._key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _OPEN or self._matches(scope):
            await self._app(scope, receive, send)
            return
        error = NotAuthorized(
            "The API key is missing or wrong.", hint="Send it as 'Authorization: Bearer KEY'."
        )
        await error_response(error)(scope, receive, send)

    def _matches(self, scope: Scope) -> bool:
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, token = given.partition(b" ")
        return hmac.compare_digest(token.strip(), self._key) and scheme.lower() == b"bearer"

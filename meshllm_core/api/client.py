"""The typed client of a node: state and actions from the management API, chat from /v1.

Light to import: the HTTP library is loaded by the first call.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from meshllm_core.api.client_errors import error_from, unreachable, unreadable
from meshllm_core.api.record import NodeRecord, find_node, read_record, remove_record, write_record
from meshllm_core.api.schema import Health, InviteAnswer, Status
from meshllm_core.api.sse_reader import ServerEvent, read_events
from meshllm_core.errors import MeshError, NodeError, NotAuthorized
from meshllm_core.state.events import LoggedEvent
from meshllm_core.state.reduce import reduce
from meshllm_core.state.snapshot import NodeSnapshot

if TYPE_CHECKING:
    import httpx

__all__ = [
    "ChatDelta",
    "ManagementClient",
    "NodeRecord",
    "find_node",
    "read_record",
    "remove_record",
    "write_record",
]

T = TypeVar("T")

CALL_SECONDS = 10.0
"""So long a call to the management API may take; actions may take longer, see ACT_SECONDS."""
ACT_SECONDS = 60.0
SILENCE_SECONDS = 35.0
"""A stream that sends not even a heartbeat for so long is dead."""
CHAT_SILENCE_SECONDS = 330.0
"""More than the longest keep-alive interval that a node may be set to."""
RETRY_FIRST = 0.2
RETRY_LONGEST = 3.0
ANSWER_LIMIT = 32 << 20
"""Bytes of one answer."""


@dataclass(frozen=True)
class ChatDelta:
    """A piece of a streamed answer. Figures come with the last pieces."""

    text: str = ""
    reasoning: str = ""
    finish_reason: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    model: str = ""
    """The model that answered."""
    served_by: str = ""
    """Name of the other member that computed it; empty: the node that was asked."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """The node's own figures, in milliseconds and tokens per second."""


_OTHER_TOKEN = (
    "The node was started by another user or with another MESHLLM_HOME, or its token file was changed since. "
    "Use the same ones, or end its process (`meshllm status` has the number) and start it again."
)


class ManagementClient:
    """Talks to one node. Raises MeshError: NodeNotRunning when nobody answers, else what the node said.

    `api_url` is only needed by `chat_stream` and asked of the node when empty. `api_key` is what /v1 asks
    for, if it does; without one $MESHLLM_API_KEY is sent.
    """

    def __init__(self, console_url: str, *, token: str = "", api_url: str = "", api_key: str = "") -> None:
        self.console_url = console_url.rstrip("/")
        self._token = token
        self._api_url = api_url.rstrip("/")
        self._api_key = api_key or os.environ.get("MESHLLM_API_KEY", "")
        self._http: httpx.AsyncClient | None = None

    async def __aenter__(self) -> ManagementClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Gives the connections back."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def health(self) -> Health:
        """Whether the node would answer requests."""
        return await self._get("/health", Health)

    async def status(self) -> Status:
        """The node in one document."""
        return await self._get("/api/status", Status)

    async def snapshot(self) -> NodeSnapshot:
        """Everything a client may see."""
        return await self._get("/api/snapshot", NodeSnapshot)

    async def act(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Asks the node for one of its actions; arguments that are None are left out."""
        body = json.dumps({key: value for key, value in arguments.items() if value is not None})
        url = f"{self.console_url}/api/actions/{name}"
        try:
            raw = await self._call("POST", url, ACT_SECONDS, body.encode())
        except NotAuthorized as error:
            # The server's hint is for who writes requests; here a person pressed a key.
            raise NotAuthorized(error.message, hint=_OTHER_TOKEN) from error
        return _decode(raw, dict[str, Any])

    async def ask(self, name: str, kind: type[T], /, **arguments: Any) -> T:
        """Asks one of the node's questions; its answer is a `kind`. Arguments that are None are left out."""
        from urllib.parse import urlencode

        given = {key: value for key, value in arguments.items() if value is not None}
        query = urlencode({k: str(v).lower() if isinstance(v, bool) else v for k, v in given.items()})
        try:
            return await self._get(f"/api/{name}" + (f"?{query}" if query else ""), kind, ACT_SECONDS)
        except NotAuthorized as error:
            raise NotAuthorized(error.message, hint=_OTHER_TOKEN) from error

    async def invite(
        self,
        *,
        uses: int | None = None,
        expires_seconds: float | None = None,
        role: str | None = None,
        may_invite: bool | None = None,
        approve: bool | None = None,
    ) -> InviteAnswer:
        """Makes an invite, and a mesh where there is none; what is None is chosen by the node."""
        asked = {"uses": uses, "expires_seconds": expires_seconds, "role": role, "may_invite": may_invite}
        return _convert(await self.act("invite", approve=approve, **asked), InviteAnswer)

    async def join(self, token: str) -> None:
        """Begins to join; how it goes is told by `join` of the snapshot."""
        await self.act("join", token=token)

    async def leave(self) -> None:
        """Leaves the mesh."""
        await self.act("leave")

    async def revoke(self, target: str, *, confirm: bool | None = None) -> tuple[str, ...]:
        """Withdraws an invite or a membership; gives back what was withdrawn with it."""
        answer = await self.act("revoke", target=target, confirm=confirm)
        return _convert(answer.get("revoked", ()), tuple[str, ...])

    async def public(
        self, on: bool, *, name: str | None = None, region: str | None = None, max_clients: int | None = None
    ) -> None:
        """Lists the mesh on public relays, or takes the listing back."""
        await self.act("public", on=on, name=name, region=region, max_clients=max_clients)

    async def forget(self, node: str) -> None:
        """Stops listing a member that is gone."""
        await self.act("forget", node=node)

    async def events(self, after: int) -> AsyncGenerator[LoggedEvent]:
        """What happened after event number `after`, as it happens.

        Ends when the node closes the stream or no longer knows that place in its log. Whoever calls
        then takes a new snapshot and starts again; `follow` does so.
        """
        url = f"{self.console_url}/api/events?after={after}"
        stream = self._stream("GET", url, self._token, SILENCE_SECONDS)
        async with contextlib.aclosing(stream):
            async for event in stream:
                if event.event == "reset":
                    return
                yield _decode(event.data.encode(), LoggedEvent)

    async def follow(
        self, on_link: Callable[[MeshError | None], None] | None = None
    ) -> AsyncGenerator[NodeSnapshot]:
        """The snapshot after each event, for ever, over any number of lost connections.

        `on_link` is told an error when the node is lost or cannot be reached, None when it answers again.
        """
        delay, lost = RETRY_FIRST, False
        while True:
            try:
                snapshot = await self.snapshot()
                if lost and on_link:
                    on_link(None)
                delay, lost = RETRY_FIRST, False
                yield snapshot
                events = self.events(snapshot.sequence)
                async with contextlib.aclosing(events):
                    async for logged in events:
                        if logged.sequence != snapshot.sequence + 1:
                            break
                        snapshot = reduce(snapshot, logged.event)
                        yield snapshot
            except NodeError as error:
                lost = True
                if on_link:
                    on_link(error)
            await asyncio.sleep(delay)
            delay = min(delay * 2, RETRY_LONGEST) if lost else RETRY_FIRST

    async def chat_stream(
        self, messages: Sequence[Mapping[str, Any]], model: str = "auto", **options: Any
    ) -> AsyncGenerator[ChatDelta]:
        """The answer of `model`, piece by piece. `options` are further fields of the request.

        Closing the iterator cancels the request.
        """
        wanted = {key: value for key, value in options.items() if value is not None}
        body = {
            "model": model,
            "messages": list(messages),
            "stream": True,
            "stream_options": {"include_usage": True},
            **wanted,
        }
        url = f"{await self._base()}/v1/chat/completions"
        stream = self._stream("POST", url, self._api_key, CHAT_SILENCE_SECONDS, json.dumps(body).encode())
        async with contextlib.aclosing(stream):
            async for event in stream:
                if event.data == "[DONE]":
                    return
                yield _chat_delta(event)

    async def _base(self) -> str:
        if not self._api_url:
            self._api_url = (await self.snapshot()).api_url.rstrip("/")
        return self._api_url

    async def _get(self, path: str, kind: type[T], seconds: float = CALL_SECONDS) -> T:
        return _decode(await self._call("GET", f"{self.console_url}{path}", seconds), kind)

    async def _call(self, verb: str, url: str, seconds: float, body: bytes | None = None) -> bytes:
        stream = self._open(verb, url, self._token, seconds, body)
        raw = bytearray()
        async with contextlib.aclosing(stream):
            async for chunk in stream:
                raw += chunk
                if len(raw) > ANSWER_LIMIT:
                    raise unreadable(url)
        return bytes(raw)

    async def _stream(
        self, verb: str, url: str, key: str, silence: float, body: bytes | None = None
    ) -> AsyncGenerator[ServerEvent]:
        chunks = self._open(verb, url, key, silence, body)
        events = read_events(chunks)
        async with contextlib.aclosing(chunks), contextlib.aclosing(events):
            async for event in events:
                yield event

    async def _open(
        self, verb: str, url: str, key: str, silence: float, body: bytes | None
    ) -> AsyncGenerator[bytes]:
        """The body of an answer in pieces. Raises the node's own error for a status of 400 and more."""
        import httpx

        headers = {"authorization": f"Bearer {key}"} if key else {}
        if body is not None:
            headers["content-type"] = "application/json"
        timeout = httpx.Timeout(CALL_SECONDS, read=silence)
        try:
            async with self._connections().stream(
                verb, url, content=body, headers=headers, timeout=timeout
            ) as answer:
                if answer.status_code >= 400:
                    raise error_from((await answer.aread())[:ANSWER_LIMIT], answer.status_code, url)
                async for chunk in answer.aiter_bytes():
                    yield chunk
        except httpx.HTTPError as error:
            raise unreachable(url, error) from error

    def _connections(self) -> httpx.AsyncClient:
        if self._http is None:
            import httpx

            # The node is on this machine or named by address: a proxy of the environment is not meant.
            self._http = httpx.AsyncClient(trust_env=False)
        return self._http


def _decode(raw: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _not_understood() from None


def _convert(value: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        raise _not_understood() from None


def _not_understood() -> NodeError:
    return NodeError(
        "The node's answer is not understood.",
        hint="It may be of another version of meshllm: `meshllm stop`, then start it again.",
    )


def _chat_delta(event: ServerEvent) -> ChatDelta:
    chunk = _decode(event.data.encode(), dict[str, Any])
    if "error" in chunk:
        raise error_from(event.data.encode(), 500, "the stream")
    choice: Mapping[str, Any] = next(iter(chunk.get("choices") or ()), {})
    delta, usage = choice.get("delta") or {}, chunk.get("usage") or {}
    return ChatDelta(
        text=delta.get("content") or "",
        reasoning=delta.get("reasoning_content") or "",
        finish_reason=choice.get("finish_reason") or "",
        prompt_tokens=usage.get("prompt_tokens", 0),
        completion_tokens=usage.get("completion_tokens", 0),
        cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0),
        model=chunk.get("model") or "",
        served_by=_served_by(chunk),
        timings=chunk.get("timings") or {},
    )


def _served_by(chunk: Mapping[str, Any]) -> str:
    told = chunk.get("meshllm")
    name = told.get("served_by") if isinstance(told, dict) and told.get("route") == "mesh" else ""
    return name if isinstance(name, str) else ""

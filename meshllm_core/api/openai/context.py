"""What a route has at hand: the service, the settings, and who is asking."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from meshllm_core.api.openai.body import read_json
from meshllm_core.api.openai.errors import REQUEST_ID
from meshllm_core.api.openai.settings import OpenAISettings
from meshllm_core.api.openai.streaming import EventStream, cancel, client_gone
from meshllm_core.api.openai.validation import BodyT, validate
from meshllm_core.api.openai.wire import ServedView, json_bytes, served_field, served_headers
from meshllm_core.engine.base import StageEngine
from meshllm_core.engine.types import Chunk, GenerationRequest, Started
from meshllm_core.errors import InvalidRequest, RequestCancelled, UnsupportedFeature
from meshllm_core.ids import RequestId
from meshllm_core.serve.router import HostedModel
from meshllm_core.serve.served import ServedBy
from meshllm_core.serve.service import InferenceService

Result = TypeVar("Result")


@dataclass(frozen=True)
class Edge:
    """The endpoint's own state: none but the ids of the requests that are being computed."""

    service: InferenceService
    settings: OpenAISettings
    in_flight: set[str] = field(default_factory=set)

    @staticmethod
    def of(request: Request) -> "Edge":
        """The edge that `request` came in by."""
        return cast(Edge, request.app.state.edge)

    async def read(self, request: Request, schema: type[BodyT]) -> BodyT:
        """The checked body of `request`. Raises InvalidRequest and its kinds."""
        return validate(schema, await read_json(request, self.settings.max_body_bytes))

    async def resolve(self, name: str) -> tuple[HostedModel, StageEngine]:
        """The model that `name` means. Raises ModelUnknown or ModelNotReady."""
        return await self.service.resolve(name)

    async def resolve_generating(self, name: str) -> tuple[HostedModel, StageEngine]:
        """The same, for a model that must be able to write. Raises UnsupportedFeature too."""
        model, engine = await self.service.resolve(name, "text")
        if not engine.facts.generates:
            raise UnsupportedFeature(
                f"The model {model.id} makes embeddings and does not write.",
                hint="Use /v1/embeddings, or another model.",
                param="model",
            )
        return model, engine

    def stream(self, events: AsyncGenerator[bytes, None], **options: Any) -> EventStream:
        """`events` as a streamed answer."""
        return EventStream(events, keep_alive_seconds=self.settings.keep_alive_seconds, **options)

    @asynccontextmanager
    async def _claimed(self, request_id: RequestId) -> AsyncIterator[RequestId]:
        """An id that no other running request has: a client may send the same one twice at a time."""
        unique, count = request_id, 1
        while unique in self.in_flight:
            count += 1
            unique = RequestId(f"{request_id}#{count}")
        self.in_flight.add(unique)
        try:
            yield unique
        finally:
            self.in_flight.discard(unique)


@dataclass
class Answered:
    """Who computes a request, once a node has begun."""

    served: ServedBy | None = None

    def begun(self, started: Started) -> None:
        """A node has begun."""
        self.served = ServedBy.of(started)

    def headers(self) -> dict[str, str]:
        """What the headers say of it now."""
        return served_headers(self.served)

    def field(self) -> dict[str, ServedView]:
        """What the body says of it, as an object with at most one field."""
        return served_field(self.served)


@dataclass(frozen=True)
class Job:
    """A request that is ready to be computed."""

    edge: Edge
    model: HostedModel
    engine: StageEngine
    generation: GenerationRequest
    route: str
    created: int
    """Seconds since the epoch."""
    names: Mapping[str, str]
    """What the engine's fields are called on this route."""
    answered: Answered = field(default_factory=Answered)

    def answer_id(self, prefix: str) -> str:
        """The id of the answer: that of the request in OpenAI's form."""
        return f"{prefix}{self.generation.request_id.replace('-', '')}"

    @asynccontextmanager
    async def chunks(self) -> AsyncIterator[AsyncGenerator[Chunk, None]]:
        """The engine's chunks; leaving the block cancels what is left of them."""
        async with self.edge._claimed(self.generation.request_id) as unique:
            generation = self.generation
            if unique != generation.request_id:
                generation = msgspec.structs.replace(generation, request_id=unique)
            chunks = self.edge.service.generate(self.model, self.engine, generation, route=self.route)
            try:
                with parameters_as(self.names):
                    yield chunks
            finally:
                await chunks.aclose()


SCHEMA = "response_format.json_schema.schema"
"""What the engine calls the JSON schema of a request, wherever that came from."""


@contextmanager
def parameters_as(names: Mapping[str, str]) -> Iterator[None]:
    """Errors from below name their own fields: give them the names that the client used."""
    try:
        yield
    except InvalidRequest as error:
        error.param = names.get(error.param, error.param) if error.param else None
        raise


def request_id(request: Request) -> RequestId:
    """The id of a request: the client's own UUID or a new one."""
    return cast(RequestId, request.scope[REQUEST_ID])


def json_response(value: object, headers: Mapping[str, str] | None = None) -> Response:
    """`value` as the whole answer."""
    return Response(json_bytes(value), headers=headers, media_type="application/json")


def session_of(*named: str | None) -> str:
    """What a client's requests have in common, by the first of these names that it gave; empty: nothing."""
    return next((name for name in named if name), "")


async def while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`, which is cancelled when the client goes away. Raises RequestCancelled then."""
    working = asyncio.create_task(work)
    watching = asyncio.create_task(client_gone(request.receive))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise RequestCancelled("The client went away.")
        return working.result()
    finally:
        await cancel(working, watching)

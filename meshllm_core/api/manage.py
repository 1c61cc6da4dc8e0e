"""The management API: what the dashboard, the command line and curl read and ask of a node."""

import time
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Annotated, Protocol

import msgspec
from fastapi import FastAPI, Header, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException

from meshllm_core.api.guard import ANY_HOST, LOOPBACK_HOSTS, HostGuard
from meshllm_core.api.manage_actions import perform
from meshllm_core.api.manage_docs import action_request, answer, build_openapi, question_request, render_docs
from meshllm_core.api.manage_status import health_of, status_of
from meshllm_core.api.openai.errors import ErrorBody, ErrorEnvelope, on_fault, on_mesh_error
from meshllm_core.api.questions import QuestionSpec, read_query
from meshllm_core.api.schema import ActionSpec, Health, Status
from meshllm_core.api.sse import EventSource, EventStreams
from meshllm_core.api.token import check_bearer
from meshllm_core.config import is_loopback
from meshllm_core.errors import MeshError
from meshllm_core.state.snapshot import NodeSnapshot

JSON = "application/json"
_NO_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
"""Nothing leaves the node, whatever FastAPI finds in its environment."""
_DOCS_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


class ManagementBackend(Protocol):
    """The node as this API sees it."""

    @property
    def store(self) -> EventSource:
        """Events and the snapshot."""

    @property
    def actions(self) -> Mapping[str, ActionSpec]:
        """What may be asked for, by name."""

    @property
    def questions(self) -> Mapping[str, QuestionSpec]:
        """What may be looked up, by name."""

    async def act(self, name: str, arguments: dict[str, object]) -> dict[str, object]:
        """Does one of `actions`; the arguments are checked. Raises MeshError."""

    async def ask(self, name: str, arguments: msgspec.Struct) -> msgspec.Struct:
        """Answers one of `questions`; the arguments are of its type. Raises MeshError."""


def build_management_app(
    backend: ManagementBackend, *, token: str, console_host: str = "127.0.0.1"
) -> FastAPI:
    """The application for the console port.

    On loopback only what changes something needs the token; on any other address everything but
    /health does. Host and Origin must be this node's, against DNS rebinding.
    """
    app = FastAPI(
        title="meshllm management API", version="1", docs_url=None, redoc_url=None, openapi_url=None
    )
    exposed = not is_loopback(console_host)
    _add_error_handlers(app)
    _add_reading_routes(app, backend, _reading_check(token if exposed else ""))
    _add_action_routes(app, backend, token)
    _add_question_routes(app, backend, token)
    _add_docs(app, backend)
    app.add_middleware(HostGuard, allowed_hosts=frozenset({ANY_HOST}) if exposed else LOOPBACK_HOSTS)
    return app


def _reading_check(token: str) -> Callable[[Request], None]:
    """Checks the token of reading calls; an empty one asks for none."""

    def check(request: Request) -> None:
        if token:
            check_bearer(request.headers.get("authorization"), token)

    return check


def _add_reading_routes(app: FastAPI, backend: ManagementBackend, check: Callable[[Request], None]) -> None:
    streams = EventStreams(backend.store)

    @app.get("/health", responses=answer(Health), tags=["state"])
    async def health() -> Response:
        """Whether the node would answer requests. Always 200, and at once."""
        return _json(health_of(backend.store.snapshot, time.time()))

    @app.get("/api/status", responses=answer(Status), tags=["state"])
    async def status(request: Request) -> Response:
        """The node in one document, by the field's common names."""
        check(request)
        return _json(status_of(backend.store.snapshot))

    @app.get("/api/snapshot", responses=answer(NodeSnapshot), tags=["state"])
    async def snapshot(request: Request) -> Response:
        """Everything a client may see; `sequence` is the last event in it."""
        check(request)
        return _json(backend.store.snapshot)

    @app.get(
        "/api/events",
        responses={
            200: {"content": {"text/event-stream": {}}, "description": "id, event and data per event."}
        },
        tags=["state"],
    )
    async def events(
        request: Request,
        after: Annotated[
            str | None, Query(description="The last event you know; absent: from now on.")
        ] = None,
        last_event_id: Annotated[
            str | None, Header(description="As browsers send it; wins over after.")
        ] = None,
    ) -> Response:
        """Server-Sent Events from a place in the log. `reset` means: take a new snapshot."""
        check(request)
        return streams.open(after, last_event_id)

    @app.get("/api/actions", tags=["actions"])
    async def actions(request: Request) -> Response:
        """What may be asked of the node, each with the schema of its arguments."""
        check(request)
        listed = [
            {"name": spec.name, "summary": spec.summary, "parameters": msgspec.json.schema(spec.arguments)}
            for spec in backend.actions.values()
        ]
        return _json({"actions": listed})


def _add_action_routes(app: FastAPI, backend: ManagementBackend, token: str) -> None:
    def endpoint(name: str) -> Callable[[Request], Awaitable[Response]]:
        async def act(request: Request) -> Response:
            check_bearer(request.headers.get("authorization"), token)
            return _json(await perform(backend.actions, backend.act, name, request))

        return act

    for spec in backend.actions.values():
        app.add_api_route(
            f"/api/actions/{spec.name}",
            endpoint(spec.name),
            methods=["POST"],
            summary=spec.summary,
            openapi_extra=action_request(spec.arguments),
            tags=["actions"],
        )

    @app.post("/api/actions/{name}", include_in_schema=False)
    async def unknown(name: str, request: Request) -> Response:
        check_bearer(request.headers.get("authorization"), token)
        return _json(await perform(backend.actions, backend.act, name, request))


def _add_question_routes(app: FastAPI, backend: ManagementBackend, token: str) -> None:
    def endpoint(spec: QuestionSpec) -> Callable[[Request], Awaitable[Response]]:
        async def ask(request: Request) -> Response:
            check_bearer(request.headers.get("authorization"), token)
            return _json(await backend.ask(spec.name, read_query(spec, request.query_params)))

        return ask

    for spec in backend.questions.values():
        app.add_api_route(
            f"/api/{spec.name}",
            endpoint(spec),
            summary=spec.summary,
            responses=answer(spec.answer),
            openapi_extra=question_request(spec.arguments),
            tags=["questions"],
        )


def _add_docs(app: FastAPI, backend: ManagementBackend) -> None:
    types = (
        *(spec.arguments for spec in backend.actions.values()),
        *(spec.answer for spec in backend.questions.values()),
    )

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return _json(build_openapi(app, types))

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        page = render_docs(build_openapi(app, types))
        return HTMLResponse(page, headers={"content-security-policy": _DOCS_POLICY})

    @app.get("/", include_in_schema=False)
    async def root() -> Response:
        return RedirectResponse("/docs")


def _add_error_handlers(app: FastAPI) -> None:
    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path = request.url.path[:200]
        texts = {404: f"There is nothing at {path}.", 405: f"{request.method} is not possible on {path}."}
        plain = error.detail == HTTPStatus(error.status_code).phrase
        text = f"{texts.get(error.status_code, error.detail)} See /docs." if plain else error.detail
        code = "method_not_allowed" if error.status_code == 405 else "not_found"
        body = msgspec.json.encode(ErrorEnvelope(ErrorBody(text, "invalid_request_error", None, code)))
        return Response(body, status_code=error.status_code, headers=error.headers, media_type=JSON)

    app.add_exception_handler(MeshError, on_mesh_error)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(Exception, on_fault)


def _json(document: object) -> Response:
    return Response(msgspec.json.encode(document), media_type=JSON, headers={"cache-control": "no-store"})

"""The application: its routes, and what surrounds them."""

from collections.abc import Awaitable, Callable

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from meshllm_core.api.guard import HostGuard
from meshllm_core.api.openai.chat import chat_completions
from meshllm_core.api.openai.completions import completions
from meshllm_core.api.openai.context import Edge
from meshllm_core.api.openai.embeddings import embeddings
from meshllm_core.api.openai.errors import on_fault, on_http_error, on_mesh_error
from meshllm_core.api.openai.middleware import ApiKey, RequestIds
from meshllm_core.api.openai.models import health, list_models, ready, show_model
from meshllm_core.api.openai.responses import responses
from meshllm_core.api.openai.settings import OpenAISettings
from meshllm_core.api.openai.tokenize import detokenize, tokenize
from meshllm_core.errors import MeshError
from meshllm_core.serve.service import InferenceService

_NO_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
"""Nothing leaves the node, whatever FastAPI finds in its environment."""

Endpoint = Callable[[Request], Awaitable[Response]]

_POST: dict[str, Endpoint] = {
    "/v1/chat/completions": chat_completions,
    "/v1/completions": completions,
    "/v1/responses": responses,
    "/v1/embeddings": embeddings,
    "/v1/tokenize": tokenize,
    "/v1/detokenize": detokenize,
}
_GET: dict[str, Endpoint] = {
    "/v1/models": list_models,
    "/models": list_models,
    "/v1/models/{model_id:path}": show_model,
    "/models/{model_id:path}": show_model,
    "/health": health,
    "/healthz": health,
    "/readyz": ready,
}


def build_openai_app(service: InferenceService, settings: OpenAISettings | None = None) -> FastAPI:
    """The ASGI application that serves `service` in OpenAI's words."""
    settings = settings or OpenAISettings()
    # FastAPI's own documents would describe nothing here: bodies are read by our bounded, strict reader.
    app = FastAPI(title="meshllm", openapi_url=None, redirect_slashes=False, telemetry=_NO_TELEMETRY)
    app.state.edge = Edge(service, settings)
    for method, routes in (("POST", _POST), ("GET", _GET)):
        for path, answer in routes.items():
            app.add_route(path, answer, methods=[method])
    app.add_exception_handler(MeshError, on_mesh_error)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(Exception, on_fault)
    # The last one added is the outermost: even a refusal by the guard carries an id.
    if settings.api_key:
        app.add_middleware(ApiKey, key=settings.api_key)
    app.add_middleware(HostGuard, allowed_hosts=settings.allowed_hosts)
    app.add_middleware(RequestIds)
    return app

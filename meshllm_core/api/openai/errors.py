"""Errors in OpenAI's shape: `{"error": {"message", "type", "param", "code"}}`."""

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from meshllm_core.errors import MeshError, ModelNotReady, NotAuthorized, Overloaded, PayloadTooLarge

REQUEST_ID = "meshllm.request_id"
"""Key of the request's id in the ASGI scope."""

_HTTP_CODES = {404: "not_found", 405: "method_not_allowed"}


class ErrorBody(msgspec.Struct, frozen=True):
    """What is wrong. `param` and `code` may be null: OpenAI's own form, and its SDK reads them by name."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorEnvelope(msgspec.Struct, frozen=True):
    """The whole body of an answer that is an error."""

    error: ErrorBody


def envelope(error: MeshError) -> bytes:
    """The JSON of an error; the hint is part of the message because clients show nothing else."""
    body = ErrorBody(message=str(error), type=error.error_type, param=error.param, code=error.code)
    return msgspec.json.encode(ErrorEnvelope(body))


def internal_error() -> MeshError:
    """What a client is told of a fault inside the node: nothing of its details."""
    return MeshError("The node failed while it answered.", hint="Its log says why; please report it.")


def answer_headers(error: MeshError) -> dict[str, str]:
    """`Retry-After` for refusals that pass, `WWW-Authenticate` for a missing key."""
    if isinstance(error, Overloaded | ModelNotReady):
        return {"retry-after": str(max(1, error.retry_after))}
    if isinstance(error, NotAuthorized):
        return {"www-authenticate": "Bearer"}
    if isinstance(error, PayloadTooLarge):
        return {"connection": "close"}
    return {}


def error_response(error: MeshError) -> Response:
    """The whole answer for an error."""
    return Response(
        envelope(error), error.http_status, headers=answer_headers(error), media_type="application/json"
    )


async def on_mesh_error(request: Request, error: Exception) -> Response:
    """Exception handler for the errors that meshllm raises on purpose."""
    return error_response(error) if isinstance(error, MeshError) else await on_fault(request, error)


async def on_http_error(request: Request, error: Exception) -> Response:
    """Exception handler for routes and methods that do not exist."""
    if not isinstance(error, HTTPException):
        return await on_fault(request, error)
    word = f"{request.method} {request.url.path[:200]}"
    hint = "See the README for what /v1 offers."
    body = ErrorBody(
        message=f"There is no {word}. {hint}"
        if error.status_code == 404
        else f"{word} is not allowed. {hint}",
        type="invalid_request_error",
        param=None,
        code=_HTTP_CODES.get(error.status_code, "invalid_value"),
    )
    content = msgspec.json.encode(ErrorEnvelope(body))
    return Response(content, error.status_code, headers=error.headers, media_type="application/json")


async def on_fault(request: Request, _: Exception) -> Response:
    """Exception handler for what should not have happened; the server logs the traceback."""
    response = error_response(internal_error())
    # Starlette answers such an error outside of all middleware, so the id is added here.
    response.headers["x-request-id"] = str(request.scope.get(REQUEST_ID, ""))
    return response

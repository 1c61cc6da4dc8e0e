"""Errors in OpenAI's shape: `{"error": {"message", "type", "param", "code"}}`."""

import msgspec

from meshllm_core.errors import MeshError, ModelNotReady, NotAuthorized, Overloaded


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


def retry_headers(error: MeshError) -> dict[str, str]:
    """`Retry-After` for refusals that pass, `WWW-Authenticate` for a missing key."""
    if isinstance(error, Overloaded | ModelNotReady):
        return {"retry-after": str(max(1, error.retry_after))}
    if isinstance(error, NotAuthorized):
        return {"www-authenticate": "Bearer"}
    return {}

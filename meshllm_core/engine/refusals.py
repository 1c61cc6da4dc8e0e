"""The child's refusals as exceptions of the node. Pure."""

from meshllm_core.engine.protocol import Answer
from meshllm_core.engine.types import Refused
from meshllm_core.errors import (
    ContextLengthExceeded,
    EngineError,
    InvalidRequest,
    MeshError,
    Overloaded,
    UnsupportedField,
)


class ProbeFailed(EngineError):
    """A stage computes something else than the model that it is a part of: it did not reproduce its probe."""

    code = "probe_failed"


def error_of(refused: Refused) -> MeshError:
    """The exception for a refused request."""
    match refused.code:
        case "context_length_exceeded":
            return ContextLengthExceeded(refused.message, param=refused.param)
        case "invalid_value":
            return InvalidRequest(refused.message, param=refused.param)
        case "rate_limit_exceeded":
            return Overloaded(refused.message, hint="Try again in a moment.")
        case _:
            return EngineError(refused.message)


def error_of_answer(answer: Answer) -> MeshError:
    """The exception for an answer that carries an error."""
    match answer.error_code:
        case "context_length_exceeded":
            return ContextLengthExceeded(answer.error, param="input")
        case "unsupported_model_feature":
            error = UnsupportedField(answer.error, hint="Load an embedding model.", param="model")
            error.code = "unsupported_model_feature"
            return error
        case "rate_limit_exceeded":
            return Overloaded(answer.error, hint="Try again in a moment.")
        case _:
            return InvalidRequest(answer.error, param="input")

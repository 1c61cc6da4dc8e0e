"""From a JSON object to a checked request, or to an error that names the parameter.

Every schema of the endpoint is a `Body`: closed, strict about types, and able to tell a name that
nobody knows from one that OpenAI knows and this node does not do.
"""

import difflib
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from meshllm_core.errors import InvalidRequest, UnknownField, UnsupportedFeature, UnsupportedField

BodyT = TypeVar("BodyT", bound="Body")

_UNKNOWN, _REFUSED, _FEATURE, _WRONG = "unknown_field", "refused_field", "refused_feature", "wrong_value"
_TAGS = "<"
"""Union tags begin with this, so that they can be told from the names of fields in an error's path."""


class Body(BaseModel):
    """Base of all schemas of requests. Null stands for an absent field where one is optional."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)

    refused: ClassVar[Mapping[str, str]] = {}
    """Names that OpenAI knows and this node refuses, each with what to do instead."""

    @model_validator(mode="before")
    @classmethod
    def _names(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        known = {info.alias or name for name, info in cls.model_fields.items()}
        kept = data
        for name, value in data.items():
            if name in known:
                continue
            if name not in cls.refused:
                raise _unknown(name, [*known, *cls.refused])
            if value is not None:
                raise refused(cls.refused[name], name)
            kept = {key: item for key, item in kept.items() if key != name}
        return kept


def wrong(reason: str, field: str = "") -> PydanticCustomError:
    """A value that is wrong: `field` is the path below the value being checked."""
    return PydanticCustomError(_WRONG, "{reason}", {"reason": reason, "field": field})


def refused(reason: str, field: str = "") -> PydanticCustomError:
    """A value that OpenAI would take and this node does not."""
    return PydanticCustomError(_REFUSED, "{reason}", {"reason": reason, "field": field})


def refused_feature(reason: str, field: str = "") -> PydanticCustomError:
    """A value that needs another kind of model."""
    return PydanticCustomError(_FEATURE, "{reason}", {"reason": reason, "field": field})


def _unknown(name: str, candidates: list[str]) -> PydanticCustomError:
    shown = name[:100]
    near = difflib.get_close_matches(shown, candidates, n=1)
    reason = f"Did you mean {near[0]!r}?" if near else "Remove it."
    return PydanticCustomError(_UNKNOWN, "{reason}", {"reason": reason, "field": shown})


def tagged_by(kinds: Mapping[type, str]) -> Callable[[Any], str | None]:
    """A discriminator by JSON type, for unions such as text or a list of parts."""

    def tag(value: Any) -> str | None:
        return next((name for kind, name in kinds.items() if isinstance(value, kind)), None)

    return tag


def validate(schema: type[BodyT], data: Mapping[str, Any]) -> BodyT:
    """`data` as a `schema`. Raises InvalidRequest or one of its kinds for the first fault."""
    try:
        return schema.model_validate(data)
    except ValidationError as error:
        raise translate(error.errors(include_url=False, include_input=False)[0]) from error


def translate(fault: ErrorDetails) -> InvalidRequest:
    """The error of one fault that pydantic found."""
    context = fault.get("ctx", {})
    param = dotted((*fault["loc"], *filter(None, [context.get("field")])))
    reason = fault["msg"]
    match fault["type"]:
        case "missing":
            return InvalidRequest(f"Missing required parameter: '{param}'.", param=param)
        case "unknown_field":
            return UnknownField(f"Unknown parameter: '{param}'.", hint=reason, param=param)
        case "refused_field":
            return UnsupportedField(f"Unsupported parameter: '{param}'.", hint=reason, param=param)
        case "refused_feature":
            return UnsupportedFeature(f"Unsupported content: '{param}'.", hint=reason, param=param)
        case "wrong_value":
            return InvalidRequest(f"Invalid '{param}': {reason}", param=param)
        case _:
            return InvalidRequest(f"Invalid '{param}': {_sentence(reason)}", param=param)


def dotted(path: tuple[str | int, ...]) -> str | None:
    """`("messages", 2, "content")` as `messages[2].content`; None for the body itself."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step != "[key]" and not step.startswith(_TAGS):
            text += f".{step[:100]}" if text else step[:100]
    return text or None


def _sentence(reason: str) -> str:
    return reason.replace("Input should", "it should", 1).rstrip(".") + "."

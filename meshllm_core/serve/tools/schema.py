"""A tool's JSON schema, made to fit what a grammar can enforce. Pure."""

import copy
from typing import Any

from meshllm_core.engine.pattern import plain_pattern
from meshllm_core.errors import InvalidRequest

_DEPTH_LIMIT = 48
_REPEAT_LIMIT = 256
"""Largest minItems, maxItems, minLength and maxLength that a grammar takes."""
_STRUCTURE = frozenset(
    {"type", "enum", "const", "oneOf", "anyOf", "allOf", "$ref", "properties", "items", "prefixItems"}
)
_REPEATS = frozenset({"minItems", "maxItems", "minLength", "maxLength"})
_KEPT = (
    _STRUCTURE | _REPEATS | {"required", "additionalProperties", "pattern", "$defs", "definitions", "format"}
)
_NOT_ENFORCED = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems"),
        *("contains", "minContains", "maxContains", "minProperties", "maxProperties", "patternProperties"),
        *("propertyNames", "not", "if", "then", "else", "dependentRequired", "dependentSchemas"),
        *("unevaluatedItems", "unevaluatedProperties"),
    }
)
_ANYTHING: dict[str, Any] = {"type": ["object", "array", "string", "number", "boolean", "null"]}


def enforceable(parameters: dict[str, Any], *, tool: str, strict: bool, root: str) -> dict[str, Any]:
    """A schema of the arguments that can become a grammar, with `$ref`s that point below `root`.

    What no grammar can check (minimum, uniqueItems…) is left out: the schema of a tool advises. For a
    `strict` tool it is refused. Raises InvalidRequest.
    """
    if not parameters:
        return {"type": "object"}
    schema = _Adapter(tool, strict, root).schema(copy.deepcopy(parameters), 0)
    if schema.get("type", "object") != "object":
        raise InvalidRequest(
            f"The parameters of the tool {tool!r} must be of type object.",
            hint="Wrap the value in an object's property.",
            param="tools",
        )
    return schema


class _Adapter:
    def __init__(self, tool: str, strict: bool, root: str) -> None:
        self._tool = tool
        self._strict = strict
        self._root = root

    def schema(self, value: Any, depth: int) -> dict[str, Any]:
        if isinstance(value, bool):
            return dict(_ANYTHING)
        if not isinstance(value, dict):
            raise self._error("a schema must be an object")
        if depth > _DEPTH_LIMIT:
            raise self._error(f"it nests deeper than {_DEPTH_LIMIT} levels")
        kept = {}
        for key, inner in value.items():
            if self._enforced(key, inner):
                kept[key] = self._value(key, inner, depth)
        if not self._strict:
            kept = _softened(kept)
        return kept if _STRUCTURE & kept.keys() else dict(_ANYTHING) | kept

    def _enforced(self, key: str, inner: Any) -> bool:
        if key in _KEPT:
            if key in _REPEATS:
                fits = isinstance(inner, int) and 0 <= inner <= _REPEAT_LIMIT
            elif key == "pattern":
                fits = isinstance(inner, str) and (self._strict or _is_plain(inner))
            else:
                return True
            if fits or not self._strict:
                return fits
        if self._strict and (key in _KEPT or key in _NOT_ENFORCED):
            raise self._error(
                f"{key!r} cannot be enforced, and the tool is strict",
                hint="Leave it out, or set strict to false.",
            )
        return False

    def _value(self, key: str, inner: Any, depth: int) -> Any:
        match key:
            case "properties" | "$defs" | "definitions":
                if not isinstance(inner, dict):
                    raise self._error(f"{key} must be an object")
                return {name: self.schema(part, depth + 1) for name, part in inner.items()}
            case "oneOf" | "anyOf" | "allOf" | "prefixItems":
                if not isinstance(inner, list) or not inner:
                    raise self._error(f"{key} must be a list that is not empty")
                return [self.schema(part, depth + 1) for part in inner]
            case "items":
                return self.schema(inner, depth + 1)
            case "additionalProperties":
                return inner if isinstance(inner, bool) else self.schema(inner, depth + 1)
            case "$ref":
                return self._reference(inner)
        return inner

    def _reference(self, target: Any) -> str:
        if not isinstance(target, str) or not (target == "#" or target.startswith("#/")):
            raise self._error(f"$ref {str(target)[:100]!r} is not within the schema")
        return self._root + target[1:]

    def _error(self, detail: str, hint: str = "") -> InvalidRequest:
        return InvalidRequest(
            f"The parameters of the tool {self._tool!r} cannot be used: {detail}.", hint=hint, param="tools"
        )


def _is_plain(pattern: str) -> bool:
    try:
        plain_pattern(pattern)
    except InvalidRequest:
        return False
    return True


def _softened(schema: dict[str, Any]) -> dict[str, Any]:
    """The word that says most, where a grammar cannot hold an answer to those beside it as well."""
    for key in ("$ref", "enum", "const", "anyOf", "oneOf"):
        if key in schema:
            return {name: schema[name] for name in (key, "$defs", "definitions") if name in schema}
    left_out = set()
    if "pattern" in schema or schema.get("minLength", 0) > schema.get("maxLength", _REPEAT_LIMIT):
        left_out |= {"minLength", "maxLength"}
    if "prefixItems" in schema or schema.get("minItems", 0) > schema.get("maxItems", _REPEAT_LIMIT):
        left_out |= {"minItems", "maxItems"}
    if "prefixItems" in schema:
        left_out.add("items")
    return {key: value for key, value in schema.items() if key not in left_out}

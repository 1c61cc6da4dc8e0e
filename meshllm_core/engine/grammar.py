"""From a request's JSON schema or GBNF to the grammar that the sampler takes, within bounds.

The converter in llama-cpp-python leaves out keywords it does not know and unrolls repetitions;
llama.cpp's parser recurses into parentheses. So: constraints that would not be enforced are refused by
name, and sizes are checked before either of them runs; `schema` does the rest.
"""

import importlib
import json
from typing import Any

from meshllm_core.engine.pattern import REPEAT_LIMIT
from meshllm_core.engine.schema import plain_schema
from meshllm_core.engine.types import GenerationRequest
from meshllm_core.errors import InvalidRequest

GRAMMAR_LIMIT = 128 << 10
"""Characters of GBNF."""
DEPTH_LIMIT = 64
"""Nested parentheses of GBNF, nested objects of a schema."""

_ENFORCED = frozenset(
    {"type", "enum", "const", "oneOf", "anyOf", "allOf", "properties", "required", "additionalProperties"}
    | {"items", "prefixItems", "minItems", "maxItems", "minLength", "maxLength", "pattern"}
    | {"$ref", "$defs", "definitions"}
)
_ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "$schema", "$id", "$comment", "format"}
    | {"deprecated", "readOnly", "writeOnly", "strict", "name"}
)
_SUBSCHEMA_MAPS = ("properties", "$defs", "definitions")
_SUBSCHEMA_LISTS = ("oneOf", "anyOf", "allOf", "prefixItems")
_CHARACTER = r'[^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})'
"""Of a JSON string; the converter's own lets control characters through, which no JSON parser takes."""
_SCHEMA_PARAM = "response_format.json_schema.schema"


def grammar_of(request: GenerationRequest) -> tuple[str, str]:
    """(GBNF, name of its start rule); both empty without a grammar. Raises InvalidRequest."""
    if request.json_schema:
        try:
            return _from_schema(request)
        except InvalidRequest as error:
            if request.grammar_prefix or request.grammar_suffix:
                error.param = "tools"  # literals around a schema are a tool call's
            raise
    if request.grammar:
        _check_gbnf(request.grammar)
        return request.grammar, "root"
    return "", ""


def _from_schema(request: GenerationRequest) -> tuple[str, str]:
    try:
        schema = json.loads(request.json_schema)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"The JSON schema is not JSON: {error}.", param=_SCHEMA_PARAM) from error
    check_schema(schema)
    try:
        gbnf = _converted(plain_schema(schema))
    except InvalidRequest as error:
        error.param = _SCHEMA_PARAM
        raise
    if request.grammar_prefix or request.grammar_suffix:
        around = f"{_literal(request.grammar_prefix)} root {_literal(request.grammar_suffix)}"
        gbnf, start = f"{gbnf}\nmeshllm-start ::= {around}\n", "meshllm-start"
    else:
        start = "root"
    _check_gbnf(gbnf)
    return gbnf, start


def _converted(schema: dict[str, Any]) -> str:
    module = importlib.import_module("llama_cpp.llama_grammar")
    converter = module.SchemaConverter(prop_order={}, allow_fetch=False, dotall=False, raw_pattern=False)
    converter._format_literal = _literal_of_json
    try:
        converter.visit(converter.resolve_refs(schema, "schema"), "")
    except (ValueError, AssertionError, LookupError, TypeError, AttributeError, RecursionError) as error:
        detail = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
        raise InvalidRequest(f"The JSON schema cannot be turned into a grammar: {detail}") from error
    if "char" in converter._rules:
        converter._rules["char"] = _CHARACTER
    return str(converter.format_grammar())


def _literal_of_json(text: str) -> str:
    """A value's JSON as a literal of GBNF: the converter's own leaves backslashes to be read as escapes."""
    return json.dumps(json.dumps(json.loads(text), ensure_ascii=False), ensure_ascii=False)


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if text else ""


def check_schema(schema: Any, path: str = "schema", depth: int = 0) -> None:
    """Refuse what would not be enforced. Raises InvalidRequest naming the place."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise InvalidRequest(f"{path} must be an object.", param=_SCHEMA_PARAM)
    if depth > DEPTH_LIMIT:
        raise InvalidRequest(
            f"The JSON schema is nested deeper than {DEPTH_LIMIT} levels.", param=_SCHEMA_PARAM
        )
    for key, value in schema.items():
        if key not in _ENFORCED and key not in _ANNOTATIONS:
            raise InvalidRequest(
                f"{path}.{key} is not supported in a JSON schema here.",
                hint="It could not be enforced, so it is refused rather than ignored.",
                param=_SCHEMA_PARAM,
            )
        if key.startswith(("min", "max")) and not (type(value) is int and 0 <= value <= REPEAT_LIMIT):
            raise InvalidRequest(
                f"{path}.{key} must be a whole number from 0 to {REPEAT_LIMIT}.", param=_SCHEMA_PARAM
            )
    _check_nested(schema, path, depth)


def _check_nested(schema: dict[str, Any], path: str, depth: int) -> None:
    for key in _SUBSCHEMA_MAPS:
        inner = schema.get(key, {})
        if not isinstance(inner, dict):
            raise InvalidRequest(f"{path}.{key} must be an object.", param=_SCHEMA_PARAM)
        for name, value in inner.items():
            check_schema(value, f"{path}.{key}.{name}", depth + 1)
    for key in _SUBSCHEMA_LISTS:
        inner = schema.get(key, [])
        if not isinstance(inner, list):
            raise InvalidRequest(f"{path}.{key} must be a list.", param=_SCHEMA_PARAM)
        for index, value in enumerate(inner):
            check_schema(value, f"{path}.{key}[{index}]", depth + 1)
    for key in ("items", "additionalProperties"):
        if key in schema and not isinstance(schema[key], list):
            check_schema(schema[key], f"{path}.{key}", depth + 1)


def _check_gbnf(text: str) -> None:
    if len(text) > GRAMMAR_LIMIT:
        raise InvalidRequest(
            f"The grammar has {len(text)} characters; the limit is {GRAMMAR_LIMIT}.", param="grammar"
        )
    if "\0" in text:
        raise InvalidRequest("The grammar contains a NUL character.", param="grammar")
    # Every parenthesis counts, quoted or not: the bound is about the parser's stack, not about syntax.
    depth = deepest = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    if deepest > REPEAT_LIMIT * 2:
        raise InvalidRequest("The grammar is nested too deep.", param="grammar")

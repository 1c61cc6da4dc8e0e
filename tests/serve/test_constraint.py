"""What makes an engine write a tool call, and that the engine takes every form of it."""

import json
from typing import Any

import pytest

from meshllm_core.engine.grammar import grammar_of
from meshllm_core.engine.types import GenerationRequest
from meshllm_core.errors import InvalidRequest
from meshllm_core.ids import RequestId
from meshllm_core.serve.tools import (
    Constraint,
    Dialect,
    ToolChoice,
    ToolSpec,
    callable_tools,
    constraint,
    detect_dialect,
)
from tests.serve import templates

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolSpec("get_weather", parameters=CITY)
TIME = ToolSpec("get_time")
STRICT = ToolSpec("get_weather", parameters=CITY, strict=True)
REQUIRED = ToolChoice("required")
AUTO = ToolChoice()


def held(
    *tools: ToolSpec, choice: ToolChoice = REQUIRED, dialect: Dialect = Dialect.HERMES, **more: Any
) -> Constraint:
    found = constraint(tools, choice, more.pop("parallel", False), dialect, **more)
    assert found is not None
    return found


def grammar(found: Constraint) -> str:
    """The grammar that the engine makes of it."""
    request = GenerationRequest(
        request_id=RequestId("r1"),
        prompt="",
        json_schema=found.json_schema,
        grammar_prefix=found.grammar_prefix,
        grammar_suffix=found.grammar_suffix,
        grammar_triggers=found.grammar_triggers,
    )
    return grammar_of(request)[0]


@pytest.mark.parametrize(
    ("template", "dialect"),
    [
        (templates.QWEN, Dialect.HERMES),
        (templates.LLAMA3, Dialect.LLAMA3),
        (templates.MISTRAL, Dialect.MISTRAL),
        (templates.MISTRAL_ARGS, Dialect.MISTRAL_ARGS),
        (templates.GEMMA, None),
        (templates.DEEPSEEK, None),
        ("{{ tools }}<tool_call>\n<function=name>", None),
        ("{{ tools }}<tool_call>name<arg_key>", None),
        ("", None),
    ],
)
def test_dialect_is_told_from_the_template(template: str, dialect: Dialect | None) -> None:
    assert detect_dialect(template) == dialect


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("tools", [(WEATHER,), (TIME,), (WEATHER, TIME)])
@pytest.mark.parametrize("parallel", [False, True])
def test_the_engine_takes_every_form(dialect: Dialect, tools: tuple[ToolSpec, ...], parallel: bool) -> None:
    found = held(*tools, dialect=dialect, parallel=parallel)
    assert "::=" in grammar(found)
    assert found.grammar_triggers == ()


def test_hermes() -> None:
    found = held(WEATHER, TIME)
    assert (found.grammar_prefix, found.grammar_suffix) == ("<tool_call>\n", "\n</tool_call>")
    call = json.loads(found.json_schema)["anyOf"][0]
    assert list(call["properties"]) == ["name", "arguments"]
    assert call["properties"]["name"] == {"const": "get_weather"}


def test_mistral_forms() -> None:
    assert held(WEATHER, dialect=Dialect.MISTRAL_ARGS).grammar_prefix == "[TOOL_CALLS]get_weather[ARGS]"
    one = json.loads(held(WEATHER, TIME, dialect=Dialect.MISTRAL_ARGS).json_schema)
    assert (one["type"], one["minItems"], one["maxItems"]) == ("array", 1, 1)
    many = json.loads(held(WEATHER, dialect=Dialect.MISTRAL, parallel=True).json_schema)
    assert "maxItems" not in many


def test_a_named_tool_is_the_only_one() -> None:
    found = held(WEATHER, TIME, choice=ToolChoice("named", "get_time"))
    assert "get_weather" not in found.json_schema
    assert callable_tools((WEATHER, TIME), ToolChoice("named", "get_time")) == (TIME,)


def test_free_choices_are_not_held() -> None:
    assert constraint((WEATHER,), AUTO, True, Dialect.HERMES) is None
    assert constraint((STRICT,), ToolChoice("none"), True, Dialect.HERMES) is None
    assert constraint((), AUTO, True, Dialect.HERMES) is None
    assert callable_tools((WEATHER,), ToolChoice("none")) == ()


@pytest.mark.parametrize("dialect", list(Dialect))
def test_strict_tools_are_held_from_the_marker_on(dialect: Dialect) -> None:
    found = held(STRICT, choice=AUTO, dialect=dialect)
    assert found.grammar_triggers
    begin = found.grammar_prefix or '{"name"'
    assert all(begin.startswith(trigger) for trigger in found.grammar_triggers)


def test_an_open_thought_is_ended_first() -> None:
    found = held(WEATHER, reasoning_close="</think>")
    assert found.grammar_triggers == ("</think>",)
    assert found.grammar_prefix == "</think>\n\n<tool_call>\n"


@pytest.mark.parametrize(
    ("choice", "tools"),
    [(ToolChoice("named", "rm_rf"), (WEATHER,)), (REQUIRED, ()), (ToolChoice("named", "x"), ())],
)
def test_choices_that_cannot_be_met(choice: ToolChoice, tools: tuple[ToolSpec, ...]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        constraint(tools, choice, False, Dialect.HERMES)
    assert caught.value.param == "tool_choice"


TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/node"}, "again": {"$ref": "#"}},
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
}
ADVICE = {
    "type": "object",
    "title": "Advice",
    "properties": {
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "maxItems": 9_999},
        "code": {"type": "string", "pattern": "[a-z]"},
        "any": {"description": "whatever"},
        "flag": True,
        "choice": {"anyOf": [{"type": "null"}, {"enum": ["a", 1]}], "default": None},
    },
    "patternProperties": {"^x": {}},
}


MIXED = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 9},
        "odd": {"type": "string", "pattern": r"^(?=a)\bword$"},
        "unit": {"type": ["string", "null"], "enum": ["C", "F", None], "minLength": 1},
        "pair": {"type": "array", "prefixItems": [{}], "items": {}, "minItems": 5},
        "range": {"minItems": 3, "maxItems": 2},
        "node": {"type": "object", "$ref": "#/$defs/node", "minLength": 2},
    },
    "$defs": {"node": {"type": "integer"}},
}


@pytest.mark.parametrize(
    "parameters", [TREE, ADVICE, MIXED, {}, {"type": "object"}, {"type": "object", "properties": {}}]
)
def test_schemas_that_people_send(parameters: dict[str, Any]) -> None:
    before = json.dumps(parameters)
    assert "::=" in grammar(held(ToolSpec("a", parameters=parameters), ToolSpec("b", parameters=TREE)))
    assert json.dumps(parameters) == before


def test_references_keep_to_their_tool() -> None:
    schema = json.loads(held(ToolSpec("a", parameters=CITY), ToolSpec("b", parameters=TREE)).json_schema)
    tree = schema["$defs"]["parameters1"]
    assert tree["properties"]["root"] == {"$ref": "#/$defs/parameters1/$defs/node"}
    assert tree["properties"]["again"] == {"$ref": "#/$defs/parameters1"}


def test_a_strict_tool_is_not_softened() -> None:
    with pytest.raises(InvalidRequest, match="'minimum' cannot be enforced") as caught:
        held(ToolSpec("a", parameters=ADVICE, strict=True))
    assert caught.value.param == "tools"


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "string"},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": 1}},
        {"type": "object", "properties": {"a": {"anyOf": []}}},
        {"type": "object", "properties": {"a": {"$ref": "https://example.org/x"}}},
        {"type": "object", "properties": {"a": {"$ref": 7}}},
        {"allOf": "x"},
    ],
)
def test_schemas_that_are_none(parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        held(ToolSpec("a", parameters=parameters))
    assert caught.value.param == "tools"


def test_a_schema_that_nests_too_deep() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(200):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(InvalidRequest, match="nests deeper"):
        held(ToolSpec("a", parameters=schema))

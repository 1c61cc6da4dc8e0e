"""Schemas and grammars: what is refused, by which name."""

import json
from typing import Any

import pytest

from meshllm_core.engine.grammar import GRAMMAR_LIMIT, grammar_of
from meshllm_core.engine.llama import library
from meshllm_core.engine.types import GenerationRequest
from meshllm_core.errors import InvalidRequest
from meshllm_core.ids import RequestId

assert library.api is not None  # importing it makes llama_cpp's submodules loadable without the package


def _request(**fields: Any) -> GenerationRequest:
    return GenerationRequest(request_id=RequestId("r"), prompt="x", **fields)


def test_none_is_none() -> None:
    assert grammar_of(_request()) == ("", "")


def test_schema_becomes_rules() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    gbnf, start = grammar_of(_request(json_schema=json.dumps(schema)))
    assert start == "root"
    assert "city" in gbnf


def test_literals_surround_a_schema() -> None:
    gbnf, start = grammar_of(
        _request(json_schema='{"type":"object"}', grammar_prefix='<t "x">\n', grammar_suffix="</t>")
    )
    assert start == "meshllm-start"
    assert 'meshllm-start ::= "<t \\"x\\">\\n" root "</t>"' in gbnf


BAD_SCHEMAS = [
    ("not json", "{"),
    ("a list", "[]"),
    ("a text", '"object"'),
    ("minimum", '{"type":"integer","minimum":3}'),
    ("nested uniqueItems", '{"type":"object","properties":{"a":{"type":"array","uniqueItems":true}}}'),
    ("huge minItems", '{"type":"array","items":{"type":"string"},"minItems":100000000}'),
    ("negative minLength", '{"type":"string","minLength":-1}'),
    ("text maxLength", '{"type":"string","maxLength":"9"}'),
    ("remote reference", '{"$ref":"https://example.org/schema.json"}'),
    ("dangling reference", '{"$ref":"#/$defs/none"}'),
    ("unknown type", '{"type":"banana"}'),
    ("properties a list", '{"type":"object","properties":[]}'),
    ("anyOf an object", '{"anyOf":{}}'),
    ("deep", '{"items":' * 200 + "{}" + "}" * 200),
    ("very deep", "[" * 100_000),
]


@pytest.mark.parametrize(("name", "schema"), BAD_SCHEMAS, ids=[name for name, _ in BAD_SCHEMAS])
def test_bad_schema_names_the_field(name: str, schema: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        grammar_of(_request(json_schema=schema))
    assert caught.value.param == "response_format.json_schema.schema"
    assert str(caught.value)


@pytest.mark.parametrize("grammar", ["(" * 5000, "x" * (GRAMMAR_LIMIT + 1), "root ::= \0"])
def test_grammar_out_of_bounds(grammar: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        grammar_of(_request(grammar=grammar))
    assert caught.value.param == "grammar"


def test_a_bad_tool_schema_is_named_as_the_tools_field() -> None:
    with pytest.raises(InvalidRequest) as caught:
        grammar_of(_request(json_schema='{"type":"banana"}', grammar_prefix="<tool_call>"))
    assert caught.value.param == "tools"

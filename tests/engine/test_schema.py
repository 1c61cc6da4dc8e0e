"""Schemas in the converter's forms: nothing that was said is lost, and what cannot be kept is refused."""

from typing import Any

import pytest

from meshllm_core.engine.schema import ANY, plain_schema
from meshllm_core.errors import InvalidRequest

TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}
CLOSED = {"type": "object", "properties": {"a": WHOLE}, "required": ["a"], "additionalProperties": False}

SAME = [
    ("a nullable enum", {"type": ["string", "null"], "enum": ["a", None, 3]}, {"enum": ["a", None]}),
    ("an enum of a type", {"type": "integer", "enum": [1, True, 2.5, "1"]}, {"enum": [1]}),
    ("a constant", {"const": {"a": [1]}}, {"enum": [{"a": [1]}]}),
    (
        "a nullable object",
        {**CLOSED, "type": ["object", "null"]},
        {"anyOf": [CLOSED, {"type": "null"}]},
    ),
    (
        "a nullable array",
        {"type": ["array", "null"], "items": TEXT, "maxItems": 3},
        {"anyOf": [{"type": "array", "items": TEXT, "minItems": 0, "maxItems": 3}, {"type": "null"}]},
    ),
    (
        "anything",
        {"properties": {"a": {"description": "whatever"}, "b": True}},
        {"type": "object", "properties": {"a": ANY, "b": ANY}, "required": []},
    ),
    (
        "a required name that is not declared",
        {"type": "object", "required": ["b"], "additionalProperties": TEXT},
        {"type": "object", "properties": {"b": TEXT}, "required": ["b"], "additionalProperties": TEXT},
    ),
    ("words of another type", {"type": "string", "minItems": 3, "properties": {}}, TEXT),
    ("lengths and a format", {"minLength": 2, "format": "date"}, {"type": "string", "minLength": 2}),
    ("a count of any items", {"minItems": 2}, {"type": "array", "items": ANY, "minItems": 2}),
    ("no items", {"items": False}, {"enum": [[]]}),
    ("a tuple", {"items": [TEXT, WHOLE]}, {"type": "array", "prefixItems": [TEXT, WHOLE]}),
    ("one part", {"allOf": [TEXT]}, TEXT),
    (
        "parts",
        {"allOf": [{"properties": {"a": WHOLE, "b": TEXT}}, {"required": ["a"]}], "description": "x"},
        {"type": "object", "properties": {"a": WHOLE, "b": TEXT}, "required": ["a"]},
    ),
    (
        "a type beside anyOf",
        {"type": "string", "anyOf": [{"maxLength": 3}, {"pattern": "^x+$"}]},
        {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "string", "pattern": "^x+$"}]},
    ),
    ("nothing at all", {"title": "x"}, {"type": "object"}),
]


@pytest.mark.parametrize(("name", "schema", "plain"), SAME, ids=[name for name, _, _ in SAME])
def test_meaning_is_kept(name: str, schema: dict[str, Any], plain: dict[str, Any]) -> None:
    assert plain_schema(schema) == plain


def test_references_get_names_of_their_own() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    plain = plain_schema(
        {
            **tree,
            "properties": {"next": {"$ref": "#"}, "ref-": {"$ref": "#/$defs/a~1b"}},
            "$defs": {"a/b": TEXT},
        }
    )
    first, second = (value["$ref"] for value in plain["anyOf"][0]["properties"].values())
    assert first != second
    assert first.startswith("#/$defs/ref1-")
    assert plain["$defs"][second.removeprefix("#/$defs/")] == TEXT


REFUSED = [
    ("pattern and length", {"pattern": "^a$", "maxLength": 3}),
    ("properties beside anyOf", {**CLOSED, "anyOf": [{"required": ["a"]}]}),
    ("type beside a reference", {"type": "string", "$ref": "#/$defs/a", "$defs": {"a": TEXT}}),
    ("lengths beside enum", {"enum": ["abc"], "maxLength": 2}),
    ("enum and const", {"enum": [1], "const": 1}),
    ("an enum of none of its type", {"type": "string", "enum": [1, 2]}),
    ("empty enum", {"enum": []}),
    ("empty anyOf", {"anyOf": []}),
    ("false", {"properties": {"a": False}, "required": ["a"]}),
    ("required but not allowed", {**CLOSED, "required": ["b"]}),
    ("items beside prefixItems", {"prefixItems": [TEXT], "items": WHOLE}),
    ("a longer tuple", {"prefixItems": [TEXT], "minItems": 2}),
    ("more than the most items", {"minItems": 3, "maxItems": 2}),
    ("longer than the longest", {"minLength": 3, "maxLength": 2}),
    ("two kinds without a type", {"properties": {}, "items": {}}),
    ("no type", {"type": []}),
    ("a type nobody knows", {"type": ["string", "banana"]}),
    ("a type that is none", {"type": 3}),
    ("parts that differ", {"allOf": [CLOSED, {"properties": {"a": TEXT}}]}),
    ("parts of text", {"allOf": [TEXT, {"maxLength": 3}]}),
    ("parts of themselves", {"allOf": [{"$ref": "#"}, CLOSED]}),
    ("required as text", {"properties": {}, "required": "a"}),
    ("a place that is not there", {"$ref": "#/properties/a"}),
    ("another document", {"$ref": "other.json#/a"}),
    ("a reference of a wrong type", {"$ref": 7}),
]


@pytest.mark.parametrize(("name", "schema"), REFUSED, ids=[name for name, _ in REFUSED])
def test_refused(name: str, schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="cannot be enforced"):
        plain_schema(schema)


def test_references_that_double_at_each_step_end() -> None:
    definitions: dict[str, Any] = {
        f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}, {"$ref": f"#/$defs/a{n + 1}"}]} for n in range(60)
    }
    with pytest.raises(InvalidRequest):
        plain_schema({"allOf": [{"$ref": "#/$defs/a0"}], "$defs": {**definitions, "a60": CLOSED}})

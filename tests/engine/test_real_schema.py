"""Schemas that people send, held by the real engine: every answer is JSON and means what the schema says."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meshllm_core.engine.types import Sampling
from meshllm_core.errors import InvalidRequest
from tests.support.engines import run, running_engine

pytestmark = pytest.mark.model

PROMPT = "Here is an example in JSON:\n"
NODE = {
    "type": "object",
    "properties": {
        "v": {"enum": [1, 2]},
        "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/tree_node"}]},
    },
    "required": ["v", "next"],
}

HELD: list[tuple[dict[str, Any], Callable[[Any], bool]]] = [
    ({"enum": ['a"b', "c\\d", "e\nf", "\N{GRINNING FACE}"]}, lambda a: a in ('a"b', "c\\d", "e\nf", "😀")),
    ({"const": 'C:\\new "one"'}, lambda a: a == 'C:\\new "one"'),
    (
        {"type": "object", "properties": {'é"\\\n': {"enum": [1]}}, "required": ['é"\\\n']},
        lambda a: a == {'é"\\\n': 1},
    ),
    ({"$ref": "#/$defs/tree_node", "$defs": {"tree_node": NODE}}, lambda a: a["v"] in (1, 2)),
    (
        {
            "type": "object",
            "properties": {"node": {"enum": ["text"]}, "next": {"$ref": "#/$defs/node"}},
            "required": ["node", "next"],
            "$defs": {"node": {"enum": [7]}},
        },
        lambda a: a == {"node": "text", "next": 7},
    ),
    ({"type": ["string", "null"], "enum": ["a", "b", None]}, lambda a: a in ("a", "b", None)),
    (
        {"type": "string", "pattern": r"^\d{3}\.[\w-]{2}$"},
        lambda a: bool(re.fullmatch(r"\d{3}\.[\w-]{2}", a)),
    ),
    ({"type": "string", "pattern": "^.{5}[^a-z]{3}$"}, lambda a: len(a) == 8),
]


async def test_answers_mean_what_the_schema_says(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        null = await engine.tokenize("null", add_special=False, parse_special=False)
        # What has no end by itself takes the first way out.
        sampling = Sampling(
            temperature=1.5, top_p=1.0, top_k=0, min_p=0.0, seed=3, logit_bias=((null[0], 50.0),)
        )
        for schema, fits in HELD:
            text = json.dumps(schema)
            result = await run(engine, PROMPT, json_schema=text, sampling=sampling, max_tokens=200)
            assert result.end.reason == "stop", text
            assert fits(json.loads(result.text)), (text, result.text)


async def test_no_control_character_comes_into_a_string(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        newline = (await engine.tokenize("\n", add_special=False, parse_special=False))[0]
        pushed = Sampling(temperature=0, logit_bias=((newline, 100.0),))
        schema = '{"type":"string","minLength":1,"maxLength":20}'
        result = await run(engine, PROMPT, json_schema=schema, sampling=pushed, max_tokens=60)
        assert json.loads(result.text)


async def test_a_reference_to_itself_names_the_schema(tmp_path: Path) -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    async with running_engine(tmp_path) as engine:
        with pytest.raises(InvalidRequest, match="schema") as caught:
            await run(engine, PROMPT, json_schema=json.dumps(schema))
        assert caught.value.param == "response_format.json_schema.schema"

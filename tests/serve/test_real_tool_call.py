"""The default model, held to a tool call by its grammar, read back by the parser."""

import json
import os
from datetime import datetime
from pathlib import Path

import pytest

from meshllm_core.serve.chat_template import render_chat
from meshllm_core.serve.deltas import ChatStream
from meshllm_core.serve.tools import ToolChoice, ToolSpec, constraint
from tests.serve.joined import join
from tests.support.engines import run, running_engine

WEATHER = ToolSpec(
    "get_weather",
    "The weather in a city.",
    {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["celsius", "kelvin"]}},
        "required": ["city", "unit"],
        "additionalProperties": False,
    },
)


@pytest.mark.model
async def test_a_required_call_is_written_and_read(tmp_path: Path) -> None:
    choice = ToolChoice("required")
    async with running_engine(tmp_path, context=1024) as engine:
        prompt = render_chat(
            engine.facts.chat_template,
            [{"role": "user", "content": "How warm is it in Paris, in celsius?"}],
            tools=(WEATHER,),
            now=datetime(2026, 11, 30),
        )
        held = constraint((WEATHER,), choice, False, prompt.dialect)
        assert held is not None
        result = await run(
            engine,
            prompt.text,
            max_tokens=96,
            add_special=not prompt.adds_bos,
            json_schema=held.json_schema,
            grammar_prefix=held.grammar_prefix,
            grammar_suffix=held.grammar_suffix,
            grammar_triggers=held.grammar_triggers,
            visible_special=prompt.visible_special,
        )
    stream = ChatStream(entropy=os.urandom, tools=(WEATHER,), dialect=prompt.dialect)
    deltas = stream.feed(result.text)
    end = stream.finish("stop")
    joined = join(deltas + end.deltas)
    assert result.end.reason == "stop"
    assert end.reason == "tool_calls"
    assert joined.content == ""
    assert joined.names == ["get_weather"]
    arguments = json.loads(joined.arguments[0])
    assert set(arguments) == {"city", "unit"}
    assert arguments["unit"] in {"celsius", "kelvin"}

"""Reuse, sharing, parking and cancelling on memories that are not plain attention."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meshllm_core.engine.supervisor import EngineProcess
from meshllm_core.engine.types import Delta
from tests.support.engines import request as ask
from tests.support.engines import run, running_engine
from tests.support.tiny_models import write_tiny_mamba, write_tiny_window

pytestmark = pytest.mark.model

KINDS: dict[str, Callable[[Path], Path]] = {"recurrent": write_tiny_mamba, "window": write_tiny_window}
LONG = "".join(chr(97 + (i * i + i // 7) % 26) for i in range(300))


@pytest.fixture(params=list(KINDS))
def model(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A tiny model file of each kind."""
    return str(KINDS[request.param](tmp_path / "tiny.gguf"))


async def _fresh(tmp_path: Path, model: str, prompt: str) -> str:
    async with running_engine(tmp_path, files=(model,)) as engine:
        return (await run(engine, prompt, ignore_eos=True)).text


def _options(model: str) -> dict[str, Any]:
    return {"files": (model,), "context": 1024, "lanes": 2, "parking_bytes": 64 << 20, "queue_limit": 32}


async def test_turns_of_conversations_go_on_where_they_were(tmp_path: Path, model: str) -> None:
    talks = [f"{i}{LONG}" for i in range(4)]
    expected = [await _fresh(tmp_path, model, talk) for talk in talks]
    async with running_engine(tmp_path, **_options(model)) as engine:
        first = [await run(engine, talk, ignore_eos=True) for talk in talks]
        assert [result.text for result in first] == expected
        for _turn in range(2):
            again = [await run(engine, talk, ignore_eos=True) for talk in talks]
            assert [result.text for result in again] == expected
        longer = [talk + text + "more" for talk, text in zip(talks, expected, strict=True)]
        wanted = [await _fresh(tmp_path, model, prompt) for prompt in longer]
        results = [await run(engine, prompt, ignore_eos=True) for prompt in longer]
    assert [result.text for result in results] == wanted


async def test_a_shared_beginning_never_mixes_answers(tmp_path: Path, model: str) -> None:
    prompts = [f"{LONG}{end}" for end in ("one", "two", "three", "four", "five")]
    expected = [await _fresh(tmp_path, model, prompt) for prompt in prompts]
    async with running_engine(tmp_path, **_options(model)) as engine:
        for _round in range(3):
            results = await asyncio.gather(*(run(engine, p, ignore_eos=True) for p in prompts))
            assert [result.text for result in results] == expected


async def _leave_early(engine: EngineProcess, prompt: str, after: int) -> None:
    stream = engine.generate(ask(prompt, max_tokens=200, ignore_eos=True))
    seen = 0
    async for chunk in stream:
        seen += isinstance(chunk, Delta)
        if seen >= after:
            break
    await stream.aclose()  # type: ignore[attr-defined]


async def test_clients_that_leave_do_not_change_other_answers(tmp_path: Path, model: str) -> None:
    dice = random.Random(3)
    prompts = [f"{LONG[: dice.randrange(20, 300)]}{i}" for i in range(6)]
    expected = [await _fresh(tmp_path, model, prompt) for prompt in prompts]
    async with running_engine(tmp_path, **_options(model)) as engine:
        for _round in range(4):
            leaving = [
                asyncio.create_task(_leave_early(engine, dice.choice(prompts) + "x", dice.randrange(3)))
                for _ in range(6)
            ]
            order = dice.sample(range(len(prompts)), 4)
            results = await asyncio.gather(*(run(engine, prompts[i], ignore_eos=True) for i in order))
            assert [result.text for result in results] == [expected[i] for i in order]
            await asyncio.gather(*leaving)

"""The engines of a divided model by themselves: what bad units do, and requests that share a chain."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from meshllm_core.engine.chain import Unit, decode, encode
from meshllm_core.engine.chain_spec import ChainSpec
from meshllm_core.engine.protocol import LoadSpec, Stats
from meshllm_core.engine.supervisor import EngineProcess
from meshllm_core.engine.types import Delta, GenerationRequest, Sampling
from meshllm_core.errors import EngineError
from meshllm_core.ids import RequestId
from meshllm_core.models.stage_file import plan_stage_file
from meshllm_core.models.stage_rules import StageRules
from meshllm_core.models.stage_source import local_files, open_source
from meshllm_core.models.stage_writer import write_stage_file
from tests.mesh.members import until
from tests.support.default_model import require_default_model

RUN, CUT, LANES, CONTEXT, BATCH = 7, 10, 4, 512, 128
PROMPTS = ("A cat", "The sun", "My dog", "In 1990")


@dataclass
class Pair:
    """Two engines that hand units to each other, `seconds` later."""

    stage: EngineProcess
    driver: EngineProcess
    seconds: float = 0.0
    refused: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    to_stage: list[bytes] = field(default_factory=list)
    stats: list[Stats] = field(default_factory=list)
    """What the driver's engine said of itself."""
    change: Callable[[bytes], bytes] = lambda unit: unit
    """What becomes of a unit on its way to the driver."""

    def wire(self) -> None:
        """Joins them."""

        def to_stage(unit: bytes) -> None:
            self.to_stage.append(unit)
            asyncio.get_running_loop().call_later(self.seconds, self.stage.pass_unit, unit)

        def to_driver(unit: bytes) -> None:
            asyncio.get_running_loop().call_later(self.seconds, self.driver.pass_unit, self.change(unit))

        self.driver.on_unit, self.stage.on_unit = to_stage, to_driver
        self.stage.on_refused_unit = self.driver.on_refused_unit = self.refused.append
        self.driver.on_chain_broken = self.broken.append


@contextlib.asynccontextmanager
async def pair(folder: Path) -> AsyncIterator[Pair]:
    """SmolLM2, divided."""
    rules = StageRules(open_source(local_files(require_default_model())))
    engines = []
    stats: list[Stats] = []
    for number, (start, end) in enumerate(((0, CUT), (CUT, rules.layers))):
        planned = plan_stage_file(rules, start, end)
        file = write_stage_file(planned, folder / f"{number}.gguf")
        chain = ChainSpec(
            role="driver" if number else "stage",
            run=RUN,
            width=planned.shape.width,
            rows=BATCH,
            sequences=2 * LANES,
            positions=CONTEXT,
            dtype="f32",
            layers=rules.layers,
        )
        spec = LoadSpec(
            files=(str(file),), context=CONTEXT, lanes=LANES, prefix_slots=LANES, queue_limit=8, batch=BATCH,
            threads=1, chain=chain,
        )  # fmt: skip
        engines.append((EngineProcess(f"stage {number}", folder / f"{number}.log", stats.append), spec))
    made = Pair(engines[0][0], engines[1][0], stats=stats)
    made.wire()
    try:
        for engine, spec in engines:
            await engine.start(spec, lambda _: None)
        yield made
    finally:
        for engine, _ in engines:
            await engine.close()


async def answer(engine: EngineProcess, prompt: str, tokens: int = 24) -> str:
    """Greedy."""
    request = GenerationRequest(
        request_id=RequestId(prompt), prompt=prompt, max_tokens=tokens, sampling=Sampling(temperature=0),
        ignore_eos=True,
    )  # fmt: skip
    return "".join([chunk.text async for chunk in engine.generate(request) if isinstance(chunk, Delta)])


async def test_requests_at_the_same_time_are_under_way_together_and_answer_as_alone(tmp_path: Path) -> None:
    async with pair(tmp_path) as chain:
        alone = [await answer(chain.driver, prompt) for prompt in PROMPTS]
        chain.seconds = 0.02
        began = len(chain.to_stage)
        together = await asyncio.gather(*(answer(chain.driver, prompt) for prompt in PROMPTS))
        assert together == alone
        # In one batch for all they would be 24 decodes; each by itself 96.
        assert len(chain.to_stage) - began > 40


async def test_how_many_tokens_are_under_way_is_told_while_there_are_any(tmp_path: Path) -> None:
    async with pair(tmp_path) as chain:
        chain.seconds = 0.02
        await answer(chain.driver, "A cat", 40)
        await until(lambda: bool(chain.stats) and not chain.stats[-1].active)
        assert chain.stats[0].in_flight >= 1
        assert chain.stats[-1].in_flight == 0
        before = len(chain.stats)
        await asyncio.gather(*(answer(chain.driver, prompt, 60) for prompt in PROMPTS))
        await until(lambda: not chain.stats[-1].active)
        told = [each.in_flight for each in chain.stats[before:]]
        assert LANES <= max(told) <= LANES * BATCH
        assert told[-1] == 0


async def test_a_request_that_is_given_up_midway_disturbs_no_other(tmp_path: Path) -> None:
    async with pair(tmp_path) as chain:
        alone = await answer(chain.driver, "The sun", 40)
        chain.seconds = 0.02

        async def briefly(prompt: str) -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.3):
                    await answer(chain.driver, prompt, 400)

        for _ in range(3):
            others = [asyncio.create_task(briefly(prompt)) for prompt in ("A cat", "My dog", "In 1990")]
            # Rows computed beside others differ in their last bits: here only the beginning is the same.
            assert (await answer(chain.driver, "The sun", 40))[:20] == alone[:20]
            await asyncio.gather(*others)
        assert await answer(chain.driver, "The sun", 40) == alone
        assert not chain.refused and not chain.broken


def _spoilt(unit: Unit, what: str) -> bytes:
    values = {name: getattr(unit, name) for name in Unit.__struct_fields__}
    if what == "run":
        values["run"] = RUN + 1
    elif what == "position":
        values["positions"] = b"\xff\xff\xff\x7f"
    elif what == "sequence":
        values["sequences"] = b"\x63\0\0\0"
    elif what == "count":
        values["tokens"] = b""
    elif what == "token":
        values["tokens"] = b"\xff\xff\xff\x3f"
    elif what == "length":
        values["positions"] = b"\0\0\0"
    elif what == "trims":
        values["trims"] = b"\x63\0\0\0\0\0\0\0"
    return encode(Unit(**values))


@pytest.mark.parametrize(
    "what", ["run", "position", "sequence", "count", "token", "length", "trims", "bytes"]
)
async def test_a_wrong_unit_is_refused_and_counted_and_the_chain_goes_on(tmp_path: Path, what: str) -> None:
    async with pair(tmp_path) as chain:
        before = await answer(chain.driver, "A cat")
        unit = decode(chain.to_stage[-1], RUN)
        chain.stage.pass_unit(b"\x01\x02" if what == "bytes" else _spoilt(unit, what))
        await until(lambda: len(chain.refused) == 1)
        assert await answer(chain.driver, "A cat") == before
        assert len(chain.refused) == 1 and not chain.broken


@pytest.mark.parametrize("what", ["dtype", "not finite", "length", "another run"])
async def test_rows_that_cannot_be_used_are_refused_by_the_driver(tmp_path: Path, what: str) -> None:
    async with pair(tmp_path) as chain:
        before = await answer(chain.driver, "A cat")
        seen: list[bytes] = []

        def spoil(data: bytes) -> bytes:
            unit = decode(data, RUN)
            frame = bytearray(unit.frame)
            if what == "dtype":
                frame[4] = 99
            elif what == "not finite":
                frame[-4:] = b"\0\0\xc0\x7f"
            elif what == "length":
                frame = frame[:-3]
            else:
                frame[8] ^= 1
            # The wrong one first; the right one follows, as if somebody had got in between.
            values = {name: getattr(unit, name) for name in Unit.__struct_fields__}
            chain.driver.pass_unit(encode(Unit(**{**values, "frame": bytes(frame)})))
            seen.append(data)
            return data

        chain.change = spoil
        assert await answer(chain.driver, "A cat") == before
        assert len(chain.refused) == len(seen) and not chain.broken


async def test_a_broken_chain_ends_its_requests_with_the_reason(tmp_path: Path) -> None:
    async with pair(tmp_path) as chain:
        chain.seconds = 3600
        asking = asyncio.create_task(answer(chain.driver, "A cat"))
        await until(lambda: bool(chain.to_stage))
        chain.driver.break_chain("Bert is lost.")
        with pytest.raises(EngineError, match="Bert is lost"):
            await asking
        # The driver tells its requests first.
        await until(lambda: bool(chain.broken))
        assert chain.broken == ["Bert is lost."]

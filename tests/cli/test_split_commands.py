"""`meshllm load --split` and what `meshllm status` says of splits, against a node that the test plays."""

import asyncio
import re
from pathlib import Path

import pytest

from meshllm_core.errors import ExitCode
from meshllm_core.state import events as ev
from tests.api.manage.conftest import Node
from tests.cli.conftest import command
from tests.support import splits

LOCK = Path("lock.json").absolute()
ESCAPE = "\x1b[31m\u202e"


async def test_load_passes_on_the_options_of_a_split(node: Node) -> None:
    lock = LOCK.name
    result = await command(
        *("load", "m", "--no-wait", "--split", "--wire-dtype", "q8", "--split-topology-lock", lock)
    )
    assert result.code == 0
    await command("load", "m", "--no-wait", "--split")
    await command("load", "m", "--no-wait")
    assert node.backend.asked == [
        (
            "load",
            {"model": "m", "split": True, "wire_dtype": "q8", "split_topology_lock": str(LOCK)},
        ),
        ("load", {"model": "m", "split": True}),
        ("load", {"model": "m"}),
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--wire-dtype", "f16"), "--wire-dtype means something only with --split."),
        (("--split-topology-lock", "x"), "--split-topology-lock means something only with --split."),
        (("--split", "--wire-dtype", "f8"), "--wire-dtype"),
    ],
)
async def test_load_refuses_what_it_would_ignore(node: Node, arguments: tuple[str, ...], words: str) -> None:
    result = await command("load", "m", *arguments)
    assert (result.code, result.out, node.backend.asked) == (ExitCode.USAGE, "", [])
    assert words in result.err


async def test_load_tells_how_far_each_stage_is_until_all_are_ready(node: Node) -> None:
    async def act(name: str, arguments: dict[str, object]) -> dict[str, object]:
        happening.append(asyncio.create_task(happen()))
        return {}

    async def happen() -> None:
        for event in splits.ready():
            node.backend.store.append(event)
            await asyncio.sleep(0.02)

    happening: list[asyncio.Task[None]] = []
    node.backend.act = act  # type: ignore[method-assign]
    result = await command("load", splits.MODEL, "--split")
    await asyncio.gather(*happening)
    assert result.code == 0, result.err
    assert "1 of 3 stages ready; attic assigned, desk fetching 41 % of 5.47 GiB" in result.err
    assert result.out == (
        f"{splits.MODEL} is ready: context 8192, 4 lanes, on 3 machines.\n{splits.SENTENCE}\n"
    )


async def test_the_status_tells_the_split_in_words(node: Node) -> None:
    for event in splits.under_way():
        node.backend.store.append(event)
    shown = (await command("status")).out
    assert "loading: 1 of 3 stages ready  " in shown
    assert splits.SENTENCE in shown
    assert re.search(r"^ +1  desk +24–39 +fetching 41 % of 5\.47 GiB .* 22\.0 ms +1\.9 ms +–$", shown, re.M)
    assert re.search(r"^ +2  shed +40–47 +ready .* 48\.0 ms +1\.1 ms +1\.2 ms$", shown, re.M)
    assert "56.6 ms per token predicted, 47.0 ms of it network; misses the target of 33.3 ms" in shown
    assert "hidden states travel as f16: certified exact for this file and these cuts" in shown
    assert splits.REASONS[0] in shown
    assert "computed for others" not in shown.lower()


async def test_the_status_of_an_unmeasured_split_promises_nothing(node: Node) -> None:
    unknown = splits.planned(predicted_ms_per_token=0.0, network_ms_per_token=0.0, target_ms=33.3)
    for event in (splits.under_way()[0], unknown):
        node.backend.store.append(event)
    shown = (await command("status")).out
    assert "Nothing is measured yet" in shown
    assert "target" not in shown


async def test_a_reason_that_only_repeats_the_verdict_is_told_once(node: Node) -> None:
    verdict = "f16, the smallest format that is certified"
    plan = splits.planned(verdict=verdict, reasons=("few stages", f"hidden states travel as {verdict}"))
    for event in (splits.under_way()[0], plan):
        node.backend.store.append(event)
    assert (await command("status")).out.count(verdict) == 1


async def test_a_failed_stage_is_told_with_its_machine(node: Node) -> None:
    failed = splits.stage(splits.DESK, state="failed", detail="its disk is full")
    for event in (*splits.under_way(), failed):
        node.backend.store.append(event)
    assert "stage 1 on desk failed: its disk is full" in (await command("status")).out


async def test_stages_for_others_are_listed_and_nobody_is_asked_to_load(node: Node) -> None:
    node.backend.store.append(ev.ModelUnloaded(at=4.0, model=node.backend.store.snapshot.models[0].id))
    node.backend.store.append(splits.hosted())
    shown = (await command("status")).out
    assert re.search(r"^Llama-3\.3-70B:Q4_K_M +20–29 +2 of 4 +cellar +ready +4\.98 GiB +4,312$", shown, re.M)
    assert "No model is loaded" not in shown


async def test_texts_of_other_machines_command_no_terminal(node: Node) -> None:
    hostile = splits.row(0, f"at{ESCAPE}tic", 0, 48, state="failed", detail=f"no{ESCAPE} disk")
    plan = splits.planned(
        hostile, sentence=f"se{ESCAPE}ntence", reasons=(f"rea{ESCAPE}son",), verdict=f"ver{ESCAPE}dict"
    )
    for event in (splits.under_way()[0], plan):
        node.backend.store.append(event)
    node.backend.store.append(splits.hosted(model=f"m{ESCAPE}odel", coordinator=f"c{ESCAPE}ellar"))
    shown = (await command("status")).out
    assert "cellar" not in shown
    assert "rea\ufffd[31m\ufffdson" in shown
    assert not {"\x1b", "\u202e"} & set(shown)

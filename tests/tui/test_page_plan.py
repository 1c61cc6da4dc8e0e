"""The planner's page: its sliders, and each of its actions by key, mouse and palette."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
from textual.widgets import Static

from meshllm_core.errors import MeshError, ModelNotFound
from meshllm_tui.pages.plan import PlanPage
from meshllm_tui.themes import THEMES
from tests.tui.conftest import Screen, dashboard
from tests.tui.mesh_samples import joined, meshed, peer
from tests.tui.plan_samples import (
    MODELS,
    answer,
    replies,
)
from tests.tui.samples import ScriptedClient, bare
from tests.tui.test_page_split import perform
from tests.tui.test_themes import faint

SIZES = [(60, 20), (80, 24), (120, 40), (200, 60)]


async def opened(screen: Screen) -> PlanPage:
    """The page, by its digit, when the planner has answered."""
    await screen.press("4")
    await screen.until(lambda: isinstance(screen.app.page, PlanPage))
    await screen.until(lambda: "over 3 machines" in screen.text)
    page = screen.app.page
    assert isinstance(page, PlanPage)
    return page


def node(**changes: Any) -> ScriptedClient:
    """A node that plans."""
    return ScriptedClient(state=bare(), replies=replies(**changes))


def asked(client: ScriptedClient) -> list[dict[str, Any]]:
    """What the planner was asked, in order; what was not set is left out."""
    given = [arguments for name, arguments in client.questions if name == "plan"]
    return [{key: value for key, value in each.items() if value is not None} for each in given]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_it_plans_the_first_model_at_every_size(size: tuple[int, int]) -> None:
    client = node()
    async with dashboard(client, size=size) as screen:
        page = await opened(screen)
        assert asked(client) == [{"model": "big"}]
        for words in (
            "Qwen3-30B-A3B-Q4_K_M",
            "measured",
            "30 tok/s",
            "attic|workshop",
            "19 tok/s",
            "12 tok/s",
        ):
            assert words in screen.text
        page.go("reasons")
        await screen.until(lambda: "┣━" in screen.text)


async def test_moving_a_slider_asks_once_it_rests_and_the_latest_wins() -> None:
    client = node()
    async with dashboard(client) as screen:
        await opened(screen)
        await screen.press(
            "down", "right", "right", "right", "down", "right", "down", "right", "down", "left"
        )
        await screen.until(lambda: "2.0 ms are supposed" in screen.text)
        await screen.until(lambda: "target_ms" in asked(client)[-1])
        assert asked(client)[-1] == {
            "model": "big",
            "hop_ms": 2.0,
            "ctx_size": 2048,
            "lanes": 1,
            "target_ms": 50.0,
        }
        assert len(asked(client)) <= 3


async def test_an_old_answer_never_covers_a_newer_one() -> None:
    held = asyncio.Event()

    class Slow(ScriptedClient):
        """Answers the first question about a supposed hop last."""

        async def ask(self, name: str, kind: type[Any], /, **arguments: Any) -> Any:
            found = await super().ask(name, kind, **arguments)
            if arguments.get("hop_ms") == 0.2:
                await held.wait()
            return found

    async with dashboard(Slow(state=bare(), replies=replies())) as screen:
        await opened(screen)
        await screen.press("down", "right")
        await screen.until(lambda: "asking" in screen.text)
        await screen.press("right")
        await screen.until(lambda: "1.0 ms are supposed" in screen.text)
        held.set()
        await screen.pilot.pause(0.2)
        assert "1.0 ms are supposed" in screen.text


async def test_a_click_on_a_track_takes_the_value_there() -> None:
    client = node()
    async with dashboard(client) as screen:
        await opened(screen)
        await screen.pilot.click("#hop", offset=(14 + 5, 0))
        await screen.until(lambda: asked(client)[-1].get("hop_ms") == 10.0)
        await screen.press("end")
        await screen.until(lambda: asked(client)[-1].get("hop_ms") == 150.0)
        await screen.press("right", "home")
        await screen.until(lambda: "hop_ms" not in asked(client)[-1])


async def test_the_model_is_turned_with_the_arrows_or_picked_from_a_list() -> None:
    client = node()
    async with dashboard(client) as screen:
        await opened(screen)
        await screen.press("right")
        await screen.until(lambda: "61 tok/s" in screen.text)
        await screen.press("left", "left")
        await screen.until(lambda: "does not run on these machines" in screen.text)
        assert "What would do" in screen.text
        await screen.press("enter")
        await screen.until(lambda: "Plan which model?" in screen.text)
        await screen.press("down", "enter")
        await screen.until(lambda: asked(client)[-1]["model"] == MODELS.models[1].ref)
        await screen.pilot.click("#plan-model")
        await screen.until(lambda: "Plan which model?" in screen.text)


@pytest.mark.parametrize("way", ["key", "mouse", "palette"])
async def test_picking_a_model(way: str) -> None:
    async with dashboard(node(), size=(160, 40)) as screen:
        page = await opened(screen)
        page.go("candidates")
        await screen.pilot.pause()
        await perform(screen, way, "m", "pick the model to plan")
        await screen.until(lambda: "Plan which model?" in screen.text)
        assert "40.0 GiB  in the catalogue" in screen.text


@pytest.mark.parametrize("way", ["key", "mouse", "palette", "enter"])
async def test_a_split_is_launched_after_its_price_was_read(way: str) -> None:
    client = node()
    async with dashboard(client, size=(160, 40)) as screen:
        page = await opened(screen)
        await screen.press("down", "down", "right")
        await screen.until(lambda: asked(client)[-1].get("ctx_size") == 2048)
        page.go("candidates")
        await screen.pilot.pause()
        if way == "enter":
            await screen.press("enter")
        else:
            await perform(screen, way, "Enter" if way == "mouse" else "L", "launch the chosen candidate")
        await screen.until(lambda: "Split Qwen3-30B-A3B-Q4_K_M?" in screen.text)
        assert client.acted == []
        assert answer().sentence in str(screen.app.screen.query_one(".dialog Static", Static).content)
        await screen.press("enter")
        await screen.until(lambda: screen.app.page.NAME == "split")
        assert client.acted == [("load", {"model": "big", "split": True, "ctx_size": 2048})]


async def test_a_whole_model_is_loaded_as_a_whole_and_cancel_loads_nothing() -> None:
    client = node()
    async with dashboard(client) as screen:
        await opened(screen)
        await screen.press("right")
        await screen.until(lambda: "61 tok/s" in screen.text)
        await screen.press("L")
        await screen.until(lambda: "Load SmolLM2-135M-Instruct?" in screen.text)
        await screen.press("escape")
        assert client.acted == []
        await screen.press("L", "enter")
        await screen.until(lambda: client.acted == [("load", {"model": "default", "split": False})])
        assert screen.app.page.NAME == "plan"


async def test_what_cannot_be_launched_says_why() -> None:
    client = node()
    async with dashboard(client) as screen:
        page = await opened(screen)
        page.go("candidates")
        await screen.press("j")
        await screen.until(lambda: "its speed is not measured" in screen.text)
        await screen.press("L")
        assert any("ranks better" in text for text in screen.toasts)
        assert client.acted == []


async def test_a_refused_load_is_told() -> None:
    client = node()
    client.refusal = ModelNotFound("The file is gone.", hint="Look.")
    async with dashboard(client) as screen:
        await opened(screen)
        await screen.press("L", "enter")
        await screen.until(lambda: any("The file is gone." in text for text in screen.toasts))
        assert screen.app.page.NAME == "plan"


@pytest.mark.parametrize("way", ["key", "mouse", "palette"])
async def test_reset_takes_back_what_was_supposed(way: str) -> None:
    client = node()
    async with dashboard(client, size=(160, 40)) as screen:
        page = await opened(screen)
        await screen.press("down", "right", "right")
        await screen.until(lambda: "hop_ms" in asked(client)[-1])
        page.go("candidates")
        await screen.pilot.pause()
        await perform(screen, way, "z", "take back all that was supposed")
        await screen.until(lambda: "hop_ms" not in asked(client)[-1])
        await screen.until(lambda: "supposed" not in screen.text)


@pytest.mark.parametrize("way", ["key", "mouse", "palette"])
async def test_it_can_be_asked_again(way: str) -> None:
    client = node()
    async with dashboard(client, size=(160, 40)) as screen:
        await opened(screen)
        await perform(screen, way, "r", "plan again, with what")
        await screen.until(lambda: len(asked(client)) == 2)


@pytest.mark.parametrize("way", ["key", "mouse", "palette"])
async def test_copying_takes_the_plan(way: str) -> None:
    async with dashboard(node(), size=(160, 40)) as screen:
        await opened(screen)
        await perform(screen, way, "y", "copy the chosen candidate")
        await screen.until(lambda: "attic  layers 0–29" in screen.copied)


def failing(error: MeshError) -> Callable[..., MeshError]:
    """A reply that is an error."""
    return lambda **_: error


async def test_a_question_that_fails_says_what_to_do_and_can_be_asked_again() -> None:
    client = node()
    good = client.replies["plan"]
    client.replies["plan"] = failing(ModelNotFound("It is not on this disk.", hint="Fetch it first."))
    async with dashboard(client) as screen:
        await screen.press("4")
        await screen.until(lambda: "It is not on this disk." in screen.text)
        assert "Fetch it first." in screen.text
        assert "Press r to ask again." in screen.text
        await screen.press("L", "y")
        assert client.acted == []
        client.replies["plan"] = good
        await screen.press("r")
        await screen.until(lambda: "19 tok/s" in screen.text)


async def test_models_that_could_not_be_told_are_asked_for_again() -> None:
    client = node()
    client.replies["plan/models"] = ModelNotFound("The disk is gone.", hint="Bring it back.")
    async with dashboard(client) as screen:
        await screen.press("4")
        await screen.until(lambda: "The disk is gone." in screen.text)
        await screen.press("m")
        assert any("not told its models" in text for text in screen.toasts)
        client.replies["plan/models"] = MODELS
        await screen.press("r")
        await screen.until(lambda: "19 tok/s" in screen.text)


async def test_machines_that_come_change_the_plan() -> None:
    client = ScriptedClient(state=meshed(), replies=replies())
    async with dashboard(client) as screen:
        await opened(screen)
        before = len(asked(client))
        for event in joined(peer("newcomer")):
            client.happen(event)
        await screen.until(lambda: len(asked(client)) == before + 1)


async def test_a_node_that_is_gone_leaves_the_last_plan_and_says_that_it_is_old() -> None:
    client = node()
    async with dashboard(client) as screen:
        await opened(screen)
        client.state = None
        client.queue.put_nowait(None)
        await screen.until(lambda: screen.text.count("! stale") == 2)
        assert "19 tok/s" in screen.text


async def test_without_a_node_it_says_so() -> None:
    async with dashboard(ScriptedClient(state=None), settled=False) as screen:
        await screen.press("4")
        await screen.until(lambda: len(re.findall("looking for the node|no node answers", screen.text)) >= 2)


@pytest.mark.parametrize("theme", [theme.name for theme in THEMES])
async def test_its_words_stand_out(theme: str) -> None:
    async with dashboard(node(), theme=theme) as screen:
        await opened(screen)
        await screen.until(lambda: "Not used" in screen.text)
        assert faint(screen) == []

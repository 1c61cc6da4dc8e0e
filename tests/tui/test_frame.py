"""Help, leaving, the palette, the line of keys, and a node that is lost: what every page has."""

import pytest

from meshllm_core.state import events as ev
from meshllm_tui.actions.registry import ACTIONS
from meshllm_tui.app import NODE_STAYS, STOP_NODE
from meshllm_tui.pages.mesh import MeshPage
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.screens.help import HelpScreen
from meshllm_tui.screens.load import LoadScreen
from meshllm_tui.widgets.prompt import Prompt
from tests.tui.conftest import dashboard
from tests.tui.samples import START, ScriptedClient


@pytest.mark.parametrize("key", ["f1", "?"])
async def test_help_lists_the_keys_and_closes(key: str) -> None:
    async with dashboard() as screen:
        await screen.press(key)
        assert isinstance(screen.app.screen, HelpScreen)
        assert "Unload the chosen model; asks first." in screen.text
        await screen.press("escape")
        assert isinstance(screen.app.screen, MeshPage)


async def test_f1_works_in_the_prompt_where_a_question_mark_is_text() -> None:
    async with dashboard() as screen:
        await screen.press("7")
        await screen.press("?", "q", "1")
        assert screen.app.page.query_one(Prompt).text == "?q1"
        await screen.press("f1")
        assert isinstance(screen.app.screen, HelpScreen)


@pytest.mark.parametrize(
    ("keys", "result"), [(["enter"], NODE_STAYS), (["right", "enter"], STOP_NODE)], ids=["stays", "stops"]
)
@pytest.mark.parametrize("quit_key", ["ctrl+q", "q"])
async def test_leaving_asks_whether_the_node_stays(quit_key: str, keys: list[str], result: int) -> None:
    async with dashboard() as screen:
        await screen.press(quit_key)
        assert isinstance(screen.app.screen, AskScreen)
        await screen.pilot.press(*keys)
        assert screen.app.return_value == result


@pytest.mark.parametrize("keys", [["escape"], ["left", "enter"]], ids=["escape", "cancel"])
async def test_leaving_can_be_called_off(keys: list[str]) -> None:
    async with dashboard() as screen:
        await screen.press("ctrl+q", "ctrl+q", *keys)
        assert isinstance(screen.app.screen, MeshPage)
        assert screen.app.return_value is None
        assert screen.app.is_running


async def test_leaving_does_not_ask_about_a_node_that_never_answered() -> None:
    async with dashboard(ScriptedClient(state=None)) as screen:
        await screen.pilot.press("ctrl+q")
        assert screen.app.return_value == NODE_STAYS


async def test_leaving_does_not_ask_about_a_node_that_is_lost() -> None:
    async with dashboard() as screen:
        screen.client.state = None
        screen.client.queue.put_nowait(None)
        await screen.until(lambda: "stale: no answer for" in screen.text)
        await screen.pilot.press("ctrl+q")
        assert screen.app.return_value == NODE_STAYS


async def test_ctrl_q_leaves_from_any_dialog_and_back_to_it() -> None:
    async with dashboard() as screen:
        for key in ("l", "u", "question_mark", "g"):
            await screen.press(key)
            await screen.until(lambda: len(screen.app.screen_stack) == 2)
            await screen.press("ctrl+q", "ctrl+q")
            assert "Leave the dashboard?" in screen.text, key
            await screen.press("escape")
            assert len(screen.app.screen_stack) == 2
            await screen.press("escape")
            await screen.until(lambda: len(screen.app.screen_stack) == 1)


async def test_keys_at_the_bottom_follow_the_focus_and_can_be_clicked() -> None:
    async with dashboard() as screen:
        line = screen.app.home.query_one("#keys")
        assert "u Unload" in screen.text
        assert "r Retry" not in screen.text
        await screen.press("end")
        assert "r Retry" in screen.text
        await screen.to("log")
        assert "f Follow" in screen.text
        assert "u Unload" not in screen.text
        assert "Ctrl+P Palette" in screen.text
        shown = screen.text.splitlines()[-1]
        await screen.pilot.click(line, offset=(shown.index("? Help"), 0))
        await screen.until(lambda: isinstance(screen.app.screen, HelpScreen))


async def test_ctrl_c_never_quits() -> None:
    async with dashboard() as screen:
        await screen.press("ctrl+c")
        assert screen.app.is_running
        await screen.press("7")
        await screen.press(*"text", "ctrl+a", "shift+home", "ctrl+c")
        assert screen.app.is_running


async def test_every_action_of_the_palette_runs() -> None:
    async with dashboard() as screen:
        for action in ACTIONS:
            if action.palette:
                await screen.app.perform(action)
                await screen.pilot.pause()
                while len(screen.app.screen_stack) > 1:
                    await screen.press("escape")
        assert screen.app.is_running


async def test_the_palette_finds_actions_and_models() -> None:
    async with dashboard() as screen:
        await screen.press("ctrl+p")
        await screen.press(*"by name, file")
        await screen.until(lambda: "Load a model: by name" in screen.text)
        await screen.press("down", "enter")
        await screen.until(lambda: isinstance(screen.app.screen, LoadScreen))


async def test_losing_the_node_keeps_the_picture_and_tells_its_age() -> None:
    async with dashboard() as screen:
        screen.client.state = None
        screen.client.queue.put_nowait(None)
        await screen.until(lambda: "stale: no answer for" in screen.text)
        assert "SmolLM2-135M-Instruct" in screen.text
        assert "lost the node" in screen.text


async def test_a_broken_link_is_told_and_taken_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with dashboard() as screen:
        monkeypatch.setattr(screen.client, "snapshot", None)
        screen.client.queue.put_nowait(None)
        await screen.until(lambda: "the link to the node failed" in screen.text)
        monkeypatch.undo()
        screen.client.happen(ev.NoticeLogged(at=START + 90, level="info", source="x", text="back again"))
        await screen.until(lambda: "back again" in screen.text, seconds=8)

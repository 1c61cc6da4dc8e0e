"""The page of requests: every action by key, mouse and palette, at every size."""

import json

import pytest
from textual.command import CommandList

from meshllm_core.errors import ModelUnknown
from meshllm_tui.pages.requests import RequestsPage
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.widgets.connect_pane import ConnectPane
from meshllm_tui.widgets.pane import RowList
from meshllm_tui.widgets.requests_pane import RequestPane, RequestsPane
from tests.tui.conftest import Screen, dashboard
from tests.tui.request_samples import busy, finished, started
from tests.tui.samples import ScriptedClient, bare

SIZES = [(60, 20), (80, 24), (120, 40), (300, 80)]


def client() -> ScriptedClient:
    return ScriptedClient(state=busy())


async def opened(screen: Screen) -> RequestsPage:
    """The page, by its digit."""
    await screen.press("8")
    await screen.until(lambda: isinstance(screen.app.page, RequestsPage) and screen.app.page.is_mounted)
    await screen.pilot.pause()
    page = screen.app.page
    assert isinstance(page, RequestsPage)
    return page


async def choose(screen: Screen, name: str) -> None:
    """Move to the request with that id."""
    pane = screen.app.page.query_one(RequestsPane)
    await screen.press("home")
    for _ in range(20):
        if pane.chosen is not None and pane.chosen.id == name:
            return
        await screen.press("j")
    raise AssertionError(f"{name} is not listed")


async def by_palette(screen: Screen, words: str) -> None:
    """Run the action that these words find."""
    await screen.press("ctrl+p")
    for letter in words:
        await screen.pilot.press({" ": "space", ",": "comma", ":": "colon"}.get(letter, letter))
    palette = screen.app.screen
    await screen.until(lambda: palette.query_one(CommandList).option_count == 1)
    await screen.press("down", "enter")
    await screen.pilot.pause()


async def test_newest_first_with_timing() -> None:
    async with dashboard(client(), size=(120, 40)) as screen:
        await opened(screen)
        lines = screen.text.splitlines()
        rows = [line for line in lines if "SmolLM2" in line or "Qwen3" in line]
        assert "running" in rows[0] and "4.0 s" in rows[0]
        assert [word in screen.text for word in ("queue", "prefill", "decode", "tok/s")] == [True] * 4
        done = next(line for line in rows if "done" in line)
        for figure in ("512 → 128", "120 ms", "380 ms", "2.0 s", "2.5 s", "63.5"):
            assert figure in done


@pytest.mark.parametrize("size", SIZES)
async def test_it_fits_and_every_pane_is_reached(size: tuple[int, int]) -> None:
    async with dashboard(client(), size=size) as screen:
        page = await opened(screen)
        for name in ("requests", "request", "connect"):
            assert page.active == name
            assert page.query_one(f"#{name}").display
            assert page.query_one(f"#{name}").region.height >= 5
            await screen.press("tab")
        await screen.press("g", "s")
        assert page.active == "request"


async def test_enter_and_click_show_the_phases() -> None:
    async with dashboard(client(), size=(80, 24)) as screen:
        page = await opened(screen)
        await choose(screen, "a1")
        await screen.press("enter")
        assert page.active == "request"
        for words in ("120 ms  waited for a lane", "380 ms  512 prompt tokens", "2.0 s  128 tokens"):
            assert words in screen.text
        await screen.press("shift+tab", "home")
        await screen.pilot.click("#request-list", offset=(5, 0))
        await screen.pilot.pause()
        assert page.active == "request"
        assert "phases are known at its end" in screen.text


async def test_the_filter_turns_by_key_click_and_palette() -> None:
    async with dashboard(client()) as screen:
        page = await opened(screen)
        pane = page.query_one(RequestsPane)
        await screen.press("f")
        assert "only running, 2 running" in screen.text
        assert pane._list.option_count == 2
        await screen.press("f")
        assert pane._list.option_count == 1
        await screen.press("enter")
        assert "out of memory" in screen.text
        await screen.press("shift+tab")
        line = screen.text.splitlines()[-1]
        await screen.pilot.click("#keys", offset=(line.index("f Filter"), 0))
        await screen.pilot.pause()
        assert pane._list.option_count == 8
        await screen.press("1")
        await by_palette(screen, "list all requests, those")
        assert pane._list.option_count == 2


async def test_a_running_request_is_cancelled_after_a_question() -> None:
    node = client()
    node.effects["cancel"] = (finished("a7", 200, "cancelled"),)
    async with dashboard(node) as screen:
        page = await opened(screen)
        await choose(screen, "a7")
        await screen.press("x", "enter")
        assert node.acted == []
        await screen.press("x")
        assert isinstance(screen.app.screen, AskScreen)
        await screen.press("right", "enter")
        await screen.until(lambda: node.acted == [("cancel", {"request": "a7"})])
        await screen.until(lambda: "Cancelled the request." in screen.toasts)
        chosen = page.query_one(RequestsPane).chosen
        assert chosen is not None and chosen.status == "cancelled"


async def test_cancel_by_click_and_a_refusal_is_told() -> None:
    node = client()
    node.refusal = ModelUnknown("No running request has the id a7.")
    async with dashboard(node) as screen:
        await opened(screen)
        await choose(screen, "a7")
        await screen.pilot.click("#keys", offset=(screen.text.splitlines()[-1].index("x Cancel"), 0))
        await screen.until(lambda: isinstance(screen.app.screen, AskScreen))
        await screen.pilot.click("#answer-cancel")
        await screen.until(lambda: any("No running request" in text for text in screen.toasts))


async def test_cancel_by_palette_needs_a_running_one() -> None:
    async with dashboard(client()) as screen:
        await opened(screen)
        await choose(screen, "a1")
        await by_palette(screen, "cancel the chosen request")
        assert not isinstance(screen.app.screen, AskScreen)
        await choose(screen, "a6")
        await by_palette(screen, "cancel the chosen request")
        assert isinstance(screen.app.screen, AskScreen)


async def test_requests_are_copied_as_json_and_by_id() -> None:
    async with dashboard(client()) as screen:
        await opened(screen)
        await choose(screen, "a3")
        await screen.press("y")
        copied = json.loads(screen.copied)
        assert (copied["id"], copied["status"], "\n" in screen.copied) == ("a3", "error", False)
        await screen.press("c")
        assert screen.copied == "a3"
        await screen.press("tab", "y")
        assert "out of memory" in screen.copied
        await by_palette(screen, "copy the chosen request as a line")
        assert json.loads(screen.copied)["id"] == "a3"
        await by_palette(screen, "copy what is told of the request")
        assert screen.copied.startswith("✗ failed")


async def test_snippets_are_shown_and_copied() -> None:
    async with dashboard(client()) as screen:
        page = await opened(screen)
        await screen.press("tab", "tab")
        assert "http://127.0.0.1:9337/v1/chat/completions" in screen.text
        await screen.press("j", "y")
        assert screen.copied.startswith("from openai import OpenAI")
        assert '"SmolLM2-135M-Instruct"' in screen.copied
        await screen.press("j", "enter")
        assert "open-webui serve" in screen.copied
        await screen.pilot.click("#apps", offset=(3, 4))
        await screen.pilot.pause()
        assert "aider --model openai/SmolLM2-135M-Instruct" in screen.copied
        assert page.query_one("#apps", RowList).chosen == "aider"
        await by_palette(screen, "copy what connects the chosen app")
        assert any("folder of your code" in text for text in screen.toasts)


async def test_the_key_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MESHLLM_API_KEY", "very-secret-key")
    async with dashboard(client()) as screen:
        await opened(screen)
        await screen.press("tab", "tab", "y")
        assert "$MESHLLM_API_KEY" in screen.copied
        assert "very-secret" not in screen.copied + screen.text


async def test_without_requests_and_models_it_says_what_to_do() -> None:
    async with dashboard(ScriptedClient(state=bare())) as screen:
        page = await opened(screen)
        assert "No request has come yet." in screen.text
        assert "`auto`" in screen.text
        assert not page.query_one(RequestPane).check_action("copy", ())
        await screen.press("enter", "x", "y", "c")
        assert screen.copied == ""


async def test_without_a_node_every_pane_says_so() -> None:
    async with dashboard(ScriptedClient(state=None), settled=False) as screen:
        page = await opened(screen)
        assert screen.text.count("looking for the node") == 4
        assert not page.query_one(ConnectPane).check_action("copy", ())


async def test_a_lost_node_is_told() -> None:
    node = client()
    async with dashboard(node) as screen:
        await opened(screen)
        node.state = None
        node.queue.put_nowait(None)
        await screen.until(lambda: screen.app.session.link == "lost")
        await screen.pilot.pause(0.2)
        assert screen.text.count("stale: no answer") >= 2


async def test_new_requests_come_at_the_top_and_the_choice_stays() -> None:
    node = client()
    async with dashboard(node) as screen:
        page = await opened(screen)
        await choose(screen, "a5")
        node.happen(started("b1", 199))
        pane = page.query_one(RequestsPane)
        await screen.until(lambda: pane._list.option_count == 9)
        assert pane.chosen is not None and pane.chosen.id == "a5"
        node.happen(finished("a7", 200))
        await choose(screen, "a7")
        await screen.until(lambda: "2.0 s  128 tokens" in screen.text)


async def test_hostile_names_do_no_harm() -> None:
    node = ScriptedClient(state=bare())
    node.state = busy()
    async with dashboard(node) as screen:
        await opened(screen)
        node.happen(
            started("c\x1b[31m" * 100, 199, served_by="[red]x\x1b]0;t\x07" * 300, route="\u202e" * 50)
        )
        await screen.until(lambda: "3 running" in screen.text)
        await screen.press("home")
        await screen.until(lambda: "[red]x" in screen.text)
        assert "\x1b" not in screen.text

"""Keys, mouse and sizes of the home screen."""

import re

import pytest
from textual.widget import Widget
from textual.widgets import Input

from meshllm_core.errors import ModelTooLarge
from meshllm_core.ids import ModelId
from meshllm_core.state import events as ev
from meshllm_tui.actions.pages import PAGES
from meshllm_tui.app import NODE_STAYS
from meshllm_tui.pages.mesh import MeshPage
from meshllm_tui.screens.load import LoadScreen
from meshllm_tui.screens.small import SmallScreen
from tests.tui.conftest import Screen, dashboard
from tests.tui.samples import BROKEN, SMALL, START, ScriptedClient, bare


def visible(screen: Screen) -> list[str]:
    page = screen.app.page
    return [name for name in page.PANES if page.query_one(f"#{name}").region.area]


def pane_with_keyboard(screen: Screen) -> str:
    focused = screen.app.focused
    assert focused is not None
    return next(each.id or "" for each in focused.ancestors_with_self if each.has_class("pane"))


async def test_paints_before_the_node_has_answered() -> None:
    async with dashboard(ScriptedClient(state=None), started_by_us=True) as screen:
        assert screen.text.count("starting the node…") == 5, screen.text
        await screen.until(lambda: "? Help" in screen.text)


async def test_shows_node_models_and_log() -> None:
    async with dashboard() as screen:
        for words in (
            "● serving",
            "SmolLM2-135M-Instruct",
            "● ready",
            "↓ downloading",
            "✗ failed",
            "! warning",
        ):
            assert words in screen.text


async def test_an_event_repaints_only_what_it_changes() -> None:
    async with dashboard() as screen:
        node = screen.app.home.query_one("#node-facts")
        before = node.render()
        screen.client.happen(
            ev.NoticeLogged(at=START + 50, level="error", source="hub", text="the disk is full")
        )
        await screen.until(lambda: "the disk is full" in screen.text)
        assert node.render() is before


async def test_a_tick_without_news_draws_nothing() -> None:
    async with dashboard() as screen:
        drawn: list[Widget] = []
        for widget in screen.app.home.walk_children():
            widget.refresh = lambda *_, widget=widget, **__: drawn.append(widget)  # type: ignore[method-assign, assignment]
        screen.app.home.show(screen.app.session.view())
        assert drawn == []


async def test_a_thousand_events_are_a_handful_of_repaints() -> None:
    async with dashboard() as screen:
        shown = 0
        show = screen.app.home.show

        def counted(view: object) -> None:
            nonlocal shown
            shown += 1
            show(view)  # type: ignore[arg-type]

        screen.app.home.show = counted  # type: ignore[method-assign]
        for number in range(1000):
            screen.client.happen(
                ev.ModelDownloadProgressed(
                    at=START, model=ModelId("Qwen3-4B-Instruct:Q4_K_M"), bytes_done=number, bytes_total=1000
                )
            )
        await screen.until(lambda: "999" in screen.text)
        assert shown < 30


async def test_tab_goes_round_the_panes() -> None:
    async with dashboard() as screen:
        seen = [pane_with_keyboard(screen)]
        for _ in range(4):
            await screen.press("tab")
            seen.append(pane_with_keyboard(screen))
        assert seen == ["models", "log", "mesh", "node", "models"]
        await screen.press("shift+tab")
        assert pane_with_keyboard(screen) == "node"


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)])
async def test_letters_jump_to_panes_at_any_size(size: tuple[int, int]) -> None:
    async with dashboard(size=size) as screen:
        for pane in ("node", "models", "log", "mesh"):
            await screen.to(pane)
            assert pane_with_keyboard(screen) == pane
            assert pane in visible(screen)


async def test_jumping_shows_letters_takes_clicks_and_ends_by_any_other_key() -> None:
    async with dashboard() as screen:
        await screen.press("g")
        assert " a mesh " in screen.text
        assert " d models " in screen.text
        await screen.press("9")
        assert pane_with_keyboard(screen) == "models"
        await screen.press("f6")
        await screen.pilot.click("#jump-log")
        await screen.pilot.pause()
        assert pane_with_keyboard(screen) == "log"


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)])
async def test_digits_and_clicks_open_pages_at_any_size(size: tuple[int, int]) -> None:
    async with dashboard(size=size) as screen:
        for page in (*PAGES[1:], PAGES[0]):
            await screen.press(*(("escape",) if page.key != "7" else ()), page.key)
            await screen.until(lambda page=page: page.name == screen.app.page.NAME)  # type: ignore[misc]
            assert screen.text.splitlines()[1].count(page.key) == 1
        bar = screen.text.splitlines()[1]
        await screen.pilot.click("#pages", offset=(bar.index("7"), 0))
        await screen.until(lambda: screen.app.page.NAME == "chat")


@pytest.mark.parametrize("width", [80, 90, 100, 120, 300])
async def test_every_page_is_named_where_80_columns_are(width: int) -> None:
    async with dashboard(size=(width, 24)) as screen:
        titles = [f"{page.key} {page.title}" for page in PAGES]
        assert names_in_bar(screen) in ([f"{page.key} {page.short}" for page in PAGES], titles)


def names_in_bar(screen: Screen) -> list[str]:
    return re.split(r" +(?=[0-9])", screen.text.splitlines()[1].strip())


async def test_names_that_stand_close_are_clicked_at_both_ends() -> None:
    async with dashboard(size=(80, 24)) as screen:
        bar, names = screen.text.splitlines()[1], names_in_bar(screen)
        for page, text in zip((*PAGES[1:], PAGES[0]), (*names[1:], names[0]), strict=True):
            for at in (0, len(text) - 1):
                await screen.pilot.click("#pages", offset=(bar.index(text) + at, 0))
                await screen.pilot.pause(0.1)
                assert page.name == screen.app.page.NAME
                assert screen.text.splitlines()[1] == bar


@pytest.mark.parametrize(
    ("size", "panes"),
    [
        ((120, 40), ["mesh", "node", "models", "log"]),
        ((119, 40), ["mesh", "node", "models", "log"]),
        ((80, 24), ["mesh", "node", "models"]),
        ((79, 24), ["models"]),
        ((60, 20), ["models"]),
    ],
)
async def test_as_many_panes_as_there_is_room_for(size: tuple[int, int], panes: list[str]) -> None:
    async with dashboard(size=size) as screen:
        assert visible(screen) == panes


async def test_too_small_says_so_and_recovers() -> None:
    async with dashboard(size=(120, 40)) as screen:
        await screen.to("log")
        await screen.pilot.resize_terminal(50, 12)
        await screen.pilot.pause()
        assert isinstance(screen.app.screen, SmallScreen)
        assert "60×20" in screen.text
        await screen.pilot.resize_terminal(80, 24)
        await screen.pilot.pause()
        assert isinstance(screen.app.screen, MeshPage)
        assert pane_with_keyboard(screen) == "log"
        assert visible(screen) == ["node", "models", "log"]


async def test_starts_small_too() -> None:
    async with dashboard(size=(40, 10)) as screen:
        await screen.until(lambda: "60×20" in screen.text)
        await screen.press("ctrl+q")
        assert screen.app.return_value == NODE_STAYS


async def test_load_asks_the_node() -> None:
    async with dashboard(ScriptedClient(state=bare())) as screen:
        assert "Press l to load one." in screen.text
        await screen.press("l")
        await screen.press(*"owner/x", "enter")
        await screen.until(lambda: bool(screen.client.acted))
        assert screen.client.acted == [("load", {"model": "owner/x"})]
        await screen.until(lambda: isinstance(screen.app.screen, MeshPage))
        assert screen.toasts == ["Loading owner/x."]


async def test_load_takes_a_suggestion() -> None:
    async with dashboard(ScriptedClient(state=bare())) as screen:
        await screen.press("f2", "d", "down", "enter")
        await screen.until(lambda: bool(screen.client.acted))
        assert screen.client.acted == [("load", {"model": "default"})]


async def test_load_shows_a_refusal_to_be_put_right() -> None:
    client = ScriptedClient(
        state=bare(), refusal=ModelTooLarge("It needs 9 GiB.", hint="Take a smaller one.")
    )
    async with dashboard(client) as screen:
        await screen.press("l", "enter")
        await screen.until(lambda: "Write which model" in screen.text)
        await screen.press("x", "enter")
        await screen.until(lambda: "It needs 9 GiB." in screen.text)
        assert "Take a smaller one." in screen.text
        assert isinstance(screen.app.screen, LoadScreen)
        assert screen.app.screen.query_one(Input).value == "x"
        await screen.press("escape")
        assert isinstance(screen.app.screen, MeshPage)


async def test_unload_asks_first() -> None:
    async with dashboard() as screen:
        await screen.press("u", "enter")
        assert screen.client.acted == []
        await screen.press("u", "right", "enter")
        await screen.until(lambda: bool(screen.client.acted))
        assert screen.client.acted == [("unload", {"model": SMALL})]


async def test_retry_loads_a_failed_model_again() -> None:
    async with dashboard() as screen:
        await screen.press("r")
        assert screen.client.acted == []
        await screen.press("j", "j", "r")
        await screen.until(lambda: bool(screen.client.acted))
        assert screen.client.acted == [("load", {"model": "unsloth/gemma-3-27b-GGUF:Q8_0"})]


async def test_a_refused_action_stays_in_the_log() -> None:
    client = ScriptedClient(refusal=ModelTooLarge("It needs 9 GiB.", hint="Take a smaller one."))
    async with dashboard(client) as screen:
        await screen.press("end", "r")
        await screen.until(
            lambda: "load failed: It needs 9 GiB. Take a smaller one." in " ".join(screen.toasts)
        )
        log = screen.app.home.pane("log")
        await screen.until(lambda: getattr(log, "option_count", 0) == 4)


async def test_a_fault_of_the_dashboard_itself_is_told_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    async with dashboard() as screen:
        monkeypatch.setattr(screen.client, "act", None)
        await screen.press("end", "r")
        await screen.until(lambda: "the dashboard failed: TypeError" in screen.text)
        await screen.press("l", "x", "enter")
        await screen.until(lambda: "Please report it with the log." in screen.text)
        assert screen.app.is_running


async def test_enter_on_a_model_leads_to_the_chat() -> None:
    async with dashboard() as screen:
        await screen.press("enter")
        await screen.until(lambda: screen.app.page.NAME == "chat")
        assert pane_with_keyboard(screen) == "chat"
        await screen.press("escape", "1")
        await screen.to("models")
        await screen.press("end", "enter")
        assert pane_with_keyboard(screen) == "models"
        assert f"{BROKEN} is not ready: failed." in screen.toasts


async def test_copying() -> None:
    async with dashboard() as screen:
        await screen.press("y")
        assert screen.copied == SMALL
        await screen.press("e")
        assert screen.copied == "http://127.0.0.1:9337/v1"
        await screen.to("node")
        await screen.press("y")
        assert "Memory" in screen.copied
        await screen.to("log")
        await screen.press("home", "y")
        assert screen.copied.startswith("08:00:02 · info")
        await screen.press("Y")
        assert screen.copied.count("\n") == 2


async def test_the_log_follows_until_a_person_looks_back() -> None:
    async with dashboard() as screen:
        log = screen.app.home.pane("log")
        await screen.to("log")
        for number in range(30):
            screen.client.happen(
                ev.NoticeLogged(at=START + 60, level="info", source="x", text=f"line {number}")
            )
        await screen.until(lambda: "line 29" in screen.text)
        await screen.press("home")
        screen.client.happen(ev.NoticeLogged(at=START + 60, level="info", source="x", text="the newest"))
        await screen.until(lambda: getattr(log, "option_count", 0) == 34)
        await screen.pilot.pause()
        assert "the newest" not in screen.text
        await screen.press("f")
        await screen.until(lambda: "the newest" in screen.text)

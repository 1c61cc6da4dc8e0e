"""The page of activity: every action by key, mouse and palette, at every size."""

import pytest

from meshllm_core.api.schema_logs import LogPiece, LogRow, LogsAnswer
from meshllm_core.errors import NodeError
from meshllm_core.state import events as ev
from meshllm_tui.pages.activity import ActivityPage
from meshllm_tui.screens.choose import ChooseScreen
from meshllm_tui.widgets.activity_pane import ActivityPane
from meshllm_tui.widgets.filter_box import FilterBox
from meshllm_tui.widgets.logs_pane import LogsPane
from tests.tui.conftest import Screen, dashboard
from tests.tui.request_samples import busy
from tests.tui.samples import START, ScriptedClient, fold
from tests.tui.test_page_requests import by_palette

SIZES = [(60, 20), (80, 24), (120, 40), (300, 80)]


class Files:
    """Logs that grow, answered for as a node does."""

    def __init__(self) -> None:
        self.texts = {"node": "node line one\nnode line two\n", "engine-tiny": "llama_load: [red]x\x1b[2J\n"}
        self.fresh = False

    def read(self, name: str, after: int | None = None, file: str | None = None) -> LogPiece:
        text = self.texts[name]
        start = 0 if after is None or self.fresh else after
        fresh, self.fresh = self.fresh, False
        return LogPiece(
            name=name, text=text[start:], file="f", start=start, end=len(text), size=len(text), fresh=fresh
        )

    @property
    def listed(self) -> LogsAnswer:
        return LogsAnswer(
            logs=tuple(
                LogRow(name=name, model=name.removeprefix("engine-"), bytes=len(text), changed_at=START + 100)
                for name, text in self.texts.items()
            )
        )


def client(files: Files | None = None) -> ScriptedClient:
    files = files or Files()
    lines = (
        ev.NoticeLogged(at=START + 150, level="warning", source="mesh", text="attic does not answer"),
        ev.NoticeLogged(at=START + 160, level="error", source="mesh", text="attic is gone [bold]"),
    )
    node = ScriptedClient(state=fold(*lines, snapshot=busy()))
    node.replies = {"logs": files.listed, "logs/read": files.read}
    return node


async def opened(screen: Screen) -> ActivityPage:
    await screen.press("9")
    await screen.until(lambda: isinstance(screen.app.page, ActivityPage) and screen.app.page.is_mounted)
    await screen.pilot.pause(0.1)
    page = screen.app.page
    assert isinstance(page, ActivityPage)
    return page


async def test_events_and_requests_stand_in_their_order() -> None:
    async with dashboard(client()) as screen:
        await opened(screen)
        text = screen.text
        order = [
            "ready in 0.6 s",
            "resumed at 41 %",
            "out of memory",
            "tool call: mesh",
            "attic is gone [bold]",
        ]
        at = [text.index(words) for words in order]
        assert at == sorted(at)


@pytest.mark.parametrize("size", SIZES)
async def test_it_fits_and_every_pane_is_reached(size: tuple[int, int]) -> None:
    async with dashboard(client(), size=size) as screen:
        page = await opened(screen)
        for name in ("activity", "logs"):
            assert page.active == name
            assert page.query_one(f"#{name}").region.height >= 10
            await screen.press("tab")
        await screen.press("g", "s")
        await screen.until(lambda: "node line two" in screen.text)


async def test_words_filter_while_they_are_written() -> None:
    async with dashboard(client()) as screen:
        page = await opened(screen)
        pane = page.query_one(ActivityPane)
        await screen.press("slash", *"attic")
        await screen.until(lambda: "with “attic”" in screen.text)
        kept = [entry.text for entry in pane._shown]
        assert kept and all("attic" in text for text in kept)
        await screen.press("enter", "slash", "z", "z")
        await screen.until(lambda: "lines is like that" in screen.text)
        await screen.press("escape")
        assert not pane.query_one(FilterBox).display
        assert pane._list.has_focus
        assert "ready in 0.6 s" in screen.text


async def test_levels_turn_by_key_click_and_palette() -> None:
    async with dashboard(client()) as screen:
        page = await opened(screen)
        pane = page.query_one(ActivityPane)
        await screen.press("w")
        assert {entry.level for entry in pane._shown} == {"warning", "error"}
        line = screen.text.splitlines()[-1]
        await screen.pilot.click("#keys", offset=(line.index("w Level"), 0))
        await screen.pilot.pause()
        assert {entry.level for entry in pane._shown} == {"error"}
        await by_palette(screen, "show all lines, warnings")
        assert {entry.level for entry in pane._shown} == {"info", "warning", "error"}


async def test_it_follows_until_a_person_moves_up() -> None:
    node = client()
    async with dashboard(node, size=(80, 24)) as screen:
        page = await opened(screen)
        pane = page.query_one(ActivityPane)
        await screen.until(lambda: pane._list.highlighted == pane._list.option_count - 1)
        await screen.press("k", "k")
        assert "f follows" in screen.text
        chosen = pane._list.highlighted
        node.happen(ev.NoticeLogged(at=START + 199, level="info", source="x", text="brand new"))
        await screen.until(lambda: any(entry.text == "brand new" for entry in pane._shown))
        await screen.pilot.pause(0.2)
        assert pane._list.highlighted == chosen
        assert "brand new" not in screen.text
        await screen.press("f")
        await screen.until(lambda: "brand new" in screen.text)
        await screen.press("k")
        await by_palette(screen, "activity: go to the newest")
        await screen.until(lambda: pane._following)


async def test_lines_are_copied_by_key_click_and_palette() -> None:
    async with dashboard(client()) as screen:
        page = await opened(screen)
        await screen.press("w", "w", "end", "y")
        assert screen.copied.endswith("mesh attic is gone [bold]")
        await screen.press("Y")
        assert len(screen.copied.splitlines()) == len(page.query_one(ActivityPane)._shown)
        await screen.pilot.click("#happened", offset=(8, 0))
        await screen.pilot.pause()
        assert "\n" not in screen.copied and "error" in screen.copied
        await by_palette(screen, "copy all lines shown")
        assert "\n" in screen.copied
        await screen.press("home", "enter")
        assert "\n" not in screen.copied


async def test_a_log_is_read_and_followed() -> None:
    files = Files()
    async with dashboard(client(files)) as screen:
        await opened(screen)
        await screen.until(lambda: "node line two" in screen.text)
        files.texts["node"] += "and a third\n"
        await screen.until(lambda: "and a third" in screen.text)
        assert screen.text.count("node line one") == 1
        files.texts["node"], files.fresh = "after a restart\n", True
        await screen.until(lambda: "after a restart" in screen.text)
        assert "the log begins anew" in screen.text


async def test_a_hidden_page_asks_nothing() -> None:
    node = client()
    async with dashboard(node) as screen:
        await opened(screen)
        await screen.until(lambda: bool(node.questions))
        await screen.press("1")
        await screen.pilot.pause(0.2)
        asked = len(node.questions)
        await screen.pilot.pause(1.5)
        assert len(node.questions) == asked


async def test_another_log_is_chosen_by_key_mouse_and_palette() -> None:
    async with dashboard(client()) as screen:
        page = await opened(screen)
        await screen.press("tab", "o")
        await screen.until(lambda: isinstance(screen.app.screen, ChooseScreen))
        assert "engine of tiny" in screen.text
        await screen.press("down", "enter")
        await screen.until(lambda: "llama_load: [red]x" in screen.text)
        assert "\x1b" not in screen.text and "node line" not in screen.text
        await by_palette(screen, "choose which log is read")
        await screen.until(lambda: isinstance(screen.app.screen, ChooseScreen))
        await screen.press("enter")
        await screen.until(lambda: "node line one" in screen.text)
        line = screen.text.splitlines()[-1]
        await screen.pilot.click("#keys", offset=(line.index("o Other log"), 0))
        await screen.until(lambda: isinstance(screen.app.screen, ChooseScreen))
        await screen.press("escape")
        assert page.query_one(LogsPane)._text.name == "node"


async def test_a_log_is_filtered_and_copied() -> None:
    files = Files()
    files.texts["node"] = "".join(f"line {number}\n" for number in range(100))
    async with dashboard(client(files)) as screen:
        await opened(screen)
        await screen.press("tab")
        await screen.until(lambda: "line 99" in screen.text)
        await screen.press("y")
        assert screen.copied.endswith("line 99") and "line 9\n" not in screen.copied
        await screen.press("Y")
        assert len(screen.copied.splitlines()) == 100
        await screen.press("slash", "9", "9", "enter", "Y")
        assert screen.copied == "line 99"
        files.texts["node"] += "line 99 again\nno\n"
        await screen.until(lambda: "line 99 again" in screen.text)
        assert "line 98" not in screen.text
        await screen.press("slash", "escape")
        await screen.until(lambda: "line 98" in screen.text)
        await screen.press("home")
        await screen.until(lambda: "line 1 " in screen.text + " ")
        for words in ("logs: go to the log", "logs: show only lines", "logs: copy what is kept"):
            await by_palette(screen, words)
        assert len(screen.copied.splitlines()) == 102


async def test_a_log_that_cannot_be_read_says_why_and_comes_back() -> None:
    node = client()
    node.replies["logs/read"] = NodeError("Cannot read node.log: no permission.", hint="Check its mode.")
    async with dashboard(node) as screen:
        await opened(screen)
        await screen.until(lambda: "no permission" in screen.text)
        assert "Check its mode." in screen.text
        node.replies["logs/read"] = Files().read
        await screen.until(lambda: "node line two" in screen.text)
        assert "no permission" not in screen.text


async def test_no_node_and_no_logs_are_told() -> None:
    async with dashboard(ScriptedClient(state=None), settled=False) as screen:
        await opened(screen)
        assert screen.text.count("looking for the node") == 3
    node = client()
    node.replies["logs"] = LogsAnswer(logs=())
    async with dashboard(node) as screen:
        await opened(screen)
        await screen.press("tab", "o")
        await screen.until(lambda: "No log has been written yet." in screen.toasts)


async def test_a_lost_node_is_told_in_both_panes() -> None:
    node = client()
    async with dashboard(node) as screen:
        await opened(screen)
        await screen.until(lambda: "node line two" in screen.text)
        node.state = None
        node.queue.put_nowait(None)
        await screen.until(lambda: screen.text.count("stale: no answer") == 3)
        assert "node line two" in screen.text

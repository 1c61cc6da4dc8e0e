"""What is drawn: the rows in view, each once, and nothing in vain. Everything else makes keys wait."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import RenderableType
from textual._compositor import Compositor
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.css.stylesheet import Stylesheet
from textual.screen import Screen
from textual.selection import SELECT_ALL
from textual.widgets import OptionList

from meshllm_core.state import events as ev
from meshllm_core.state.mesh_events import PeerRow
from meshllm_tui.actions.pages import PAGES
from meshllm_tui.app import MeshApp
from meshllm_tui.present import Line, Span, line, plain
from meshllm_tui.widgets import long_text
from meshllm_tui.widgets.log_pane import LogPane
from meshllm_tui.widgets.long_text import LongText
from meshllm_tui.widgets.mesh_pane import MemberList
from meshllm_tui.widgets.running_pane import RunningPane
from meshllm_tui.widgets.styled import Rows, content
from tests.tui.conftest import dashboard
from tests.tui.mesh_samples import meshed, model, node_id, peer
from tests.tui.samples import START, ScriptedClient, fold

WORDS = st.text(st.sampled_from("ab  \n\t日é\u0301●"), max_size=12)
LINES = st.lists(st.lists(WORDS, max_size=3).map(lambda texts: line(*texts)), max_size=4).map(tuple)


@given(LINES, st.integers(1, 40))
def test_rows_are_as_high_as_their_content(lines: tuple[Line, ...], width: int) -> None:
    assert Rows(lines).get_height({}, width) == content(lines).get_height({}, width)


def members(count: int) -> tuple[PeerRow, ...]:
    """So many members, each with a model."""
    return tuple(
        msgspec.structs.replace(
            peer("x"), node=node_id(f"n{n}"), name=f"machine-{n:04}", models=(model(f"m{n}"),)
        )
        for n in range(count)
    )


@pytest.mark.parametrize(
    ("keys", "kind"),
    [("gat", MemberList), ("", LogPane), ("2", RunningPane)],
    ids=["members", "log", "models"],
)
async def test_of_many_rows_those_in_view_are_made(keys: str, kind: type[OptionList]) -> None:
    state = meshed(*members(300))
    for number in range(200):
        said = ev.NoticeLogged(at=START + number, level="info", source="hub", text=f"looked at {number}")
        state = fold(said, snapshot=state)
    async with dashboard(ScriptedClient(state=state)) as screen:
        await screen.press(*keys)
        options = screen.app.page.query_one(kind).options
        prompts = [option.prompt for option in options if isinstance(option.prompt, Rows)]
        assert len(prompts) == len(options) >= 200
        made = [prompt for prompt in prompts if prompt._content is not None]
        assert 0 < len(made) <= 2 * screen.app.size.height


async def test_rows_that_stay_are_not_made_anew_when_others_come_and_go() -> None:
    state = meshed()
    for number in range(200):
        said = ev.NoticeLogged(at=START + number, level="info", source="hub", text=f"looked at {number}")
        state = fold(said, snapshot=state)
    client = ScriptedClient(state=state)
    async with dashboard(client) as screen:
        log = screen.app.page.query_one(LogPane)
        before = [option.prompt for option in log.options]
        client.happen(ev.NoticeLogged(at=START + 300, level="info", source="hub", text="looked once more"))
        await screen.until(lambda: "looked once more" in screen.text)
        after = [option.prompt for option in log.options]
        assert all(old is new for old, new in zip(before[1:], after, strict=False))


async def test_a_long_text_draws_what_is_in_view(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Line] = []

    def counted(lines: tuple[Line, ...]) -> object:
        drawn.extend(lines)
        return content(lines)

    monkeypatch.setattr(long_text, "content", counted)
    async with dashboard() as screen:
        await screen.press("f1")
        lines = screen.app.screen.query_one(LongText).lines
        assert 0 < len(set(drawn)) <= screen.app.size.height < len(lines)
        await screen.press("end")
        assert plain(lines[-1:]).strip() in screen.text
        text = screen.app.screen.query_one(LongText)
        screen.app.screen.selections = {text: SELECT_ALL}
        await screen.pilot.pause()
        assert screen.app.screen.get_selected_text() == plain(lines)
        assert plain(lines[-1:]).strip() in screen.text


class Narrow(App[None]):
    """A long text with lines that are too long."""

    def compose(self) -> ComposeResult:
        """The text alone."""
        with VerticalScroll():
            yield LongText((line("one two three four five six"), line("seven")))


async def test_a_long_text_is_wrapped_where_it_is_narrow() -> None:
    async with Narrow().run_test(size=(14, 10)) as pilot:
        strips = pilot.app.screen._compositor.render_strips()
        shown = [strip.text.rstrip() for strip in strips]
        assert shown[:4] == ["one two three", "four five six", "seven", ""]
        text = pilot.app.query_one(LongText)
        text.say((line("eight"),))
        await pilot.pause()
        strips = pilot.app.screen._compositor.render_strips()
        assert [strip.text.rstrip() for strip in strips][:2] == ["eight", ""]


@pytest.fixture
def thrown_away(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was drawn while nothing is painted, and style sheets that were read anew."""
    found: list[str] = []
    render, read = Compositor.render_update, Stylesheet.reparse

    def rendered(self: Compositor, **arguments: Any) -> RenderableType | None:
        if self.root is not None and self.root.app._batch_count:
            found.append(f"drew {self.root}")
        return render(self, **arguments)

    def reparsed(self: Stylesheet) -> None:
        found.append("read the style sheets")
        read(self)

    monkeypatch.setattr(Compositor, "render_update", rendered)
    monkeypatch.setattr(Stylesheet, "reparse", reparsed)
    return found


async def test_opening_pages_does_nothing_in_vain(thrown_away: list[str]) -> None:
    async with dashboard(ScriptedClient(state=meshed())) as screen:
        await screen.pilot.pause()
        thrown_away.clear()
        for page in (*PAGES[1:], *PAGES):
            screen.app.go(page.name)
            await screen.pilot.pause(0.05)
            assert page.name == screen.app.page.NAME
        assert thrown_away == []


async def test_the_other_form_of_the_mesh_has_the_keyboard_in_its_first_frame(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frames: list[str] = []
    display = MeshApp._display

    def displayed(self: MeshApp, shown: Screen[object], renderable: RenderableType | None) -> None:
        display(self, shown, renderable)
        if renderable is not None and not self._batch_count:
            frames.append(str(self.focused.id) if self.focused is not None else "")

    monkeypatch.setattr(MeshApp, "_display", displayed)
    async with dashboard(ScriptedClient(state=meshed(*members(20)))) as screen:
        await screen.to("mesh")
        await screen.pilot.pause(0.1)
        for other in ("members", "mesh-map"):
            frames.clear()
            await screen.press("t")
            await screen.until(lambda: bool(frames))
            assert frames[0] == other


def test_what_a_line_holds() -> None:
    assert Rows((line("a"), line(Span("日本"), "b"))).fits(5)
    assert not Rows((line("a"), line(Span("日本"), "b"))).fits(4)

"""The turns of a conversation in one widget that draws lines: a long one stays as quick as a short one."""

import asyncio
from collections.abc import Sequence
from itertools import chain
from time import monotonic
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.visual import Visual
from textual.worker import Worker

from meshllm_tui.cleaning import one_line
from meshllm_tui.conversation import Turn
from meshllm_tui.units import count
from meshllm_tui.widgets.turn_lines import TurnLines

FIRST_SECONDS = 0.02
"""So long the newest turns are laid out before anything else is done; the others follow meanwhile."""
BREATH = 0.002
"""Seconds between two pieces, for keys that were pressed."""


class Talk(ScrollView, can_focus=True):
    """Shows turns from the newest to the oldest as they are laid out; stays at the end until scrolled up."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Down", show=False),
        Binding("k", "scroll_up", "Up", show=False),
    ]

    class SystemWanted(Message):
        """A click on the line that tells the system prompt."""

    def __init__(self) -> None:
        super().__init__(id="turns")
        self._items: list[TurnLines] = []
        self._laid: list[list[Content]] = []
        """Lines of the newest items, one list each."""
        self._header: tuple[Content, ...] = ()
        self._lines: list[Content] = []
        self._width = 0
        self._following = True
        """Stay at the end; until a person scrolls up."""
        self._back_to: str | None = None
        """Id of the turn to scroll to once it is laid out again."""

    def open(self, turns: Sequence[Turn]) -> None:
        """Show other turns, from their end."""
        self._items = [TurnLines(turn) for turn in turns]
        self._back_to = None
        self._following = True
        self._begin()

    def to_end(self) -> None:
        """Go to the newest line and stay there."""
        self._following = True
        self._sized()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Whoever scrolls up stays there; at the end new lines are followed again."""
        super().watch_scroll_y(old_value, new_value)
        self._following = self.is_vertical_scroll_end

    def set_header(self, lines: Sequence[Content]) -> None:
        """Lines above the first turn."""
        if tuple(lines) != self._header:
            self._header = tuple(lines)
            self._compose_lines()

    def add(self, turn: Turn) -> None:
        """Show one more turn, and go to it."""
        self._items.append(TurnLines(turn))
        self._laid.append(self._items[-1].lines(self._room) if self._width else [])
        self._following = True
        self._compose_lines()

    def drop_first(self, many: int) -> None:
        """Show the oldest turns no more."""
        del self._items[:many]
        del self._laid[: max(len(self._laid) - len(self._items), 0)]
        self._compose_lines()

    def drop_last(self) -> None:
        """Show the newest turn no more."""
        del self._items[-1:], self._laid[-1:]
        self._compose_lines()

    def draw_last(self) -> None:
        """Draw what came to the newest turn."""
        if not self._laid or not self._width:
            return
        old, new = len(self._laid[-1]), self._items[-1].lines(self._room)
        self._laid[-1] = new
        self._lines[len(self._lines) - old :] = new
        self._sized()

    def toggle_thinking(self, turn: str = "") -> bool:
        """Show or hide a turn's reasoning, the last one's by default. False when it has none."""
        items = [item for item in self._items[-len(self._laid) :] if item.turn.id == turn or not turn]
        if not items or not items[-1].turn.answer.reasoning:
            return False
        items[-1].thinking = not items[-1].thinking
        place = self._items.index(items[-1]) - len(self._items)
        self._laid[place] = items[-1].lines(self._room)
        self._compose_lines()
        return True

    @property
    def complete(self) -> bool:
        """Every turn is laid out."""
        return len(self._laid) == len(self._items)

    @property
    def _room(self) -> int:
        return max(self._width, 1)

    def on_resize(self, _: events.Resize) -> None:
        """Another width, other lines; what was at the top stays near it."""
        # One cell stays free for the scroll bar, so that nothing is wrapped anew when it comes.
        width = self.container_size.width - self.styles.scrollbar_size_vertical
        if width != self._width:
            top = self._top_item()
            self._width = width
            self._back_to = None if self._following or top is None else top.turn.id
            self._begin()
        elif self._following:
            self._sized()

    def _top_item(self) -> TurnLines | None:
        at = self.scroll_offset.y - len(self._header)
        for item, lines in zip(self._items[len(self._items) - len(self._laid) :], self._laid, strict=True):
            at -= len(lines)
            if at < 0:
                return item
        return None

    def _begin(self) -> None:
        self._laid = []
        if not self._width:
            return
        until = monotonic() + FIRST_SECONDS
        while not self.complete and monotonic() < until and not self._next().prepare(self._room):
            self._laid.insert(0, self._next().lines(self._room))
        self._compose_lines()
        self._filling: Worker[None] = self.run_worker(self._fill, group="fill", exclusive=True)

    def _next(self) -> TurnLines:
        return self._items[len(self._items) - len(self._laid) - 1]

    async def _fill(self) -> None:
        """Lay out older turns, piece by piece; what is on the screen stays where it is."""
        while not self.complete:
            item = self._next()
            if item.prepare(self._room):
                await asyncio.sleep(BREATH)
                continue
            lines = item.lines(self._room)
            self._laid.insert(0, lines)
            before = len(self._lines)
            self._compose_lines()
            grown = len(self._lines) - before
            if item.turn.id == self._back_to:
                self.scroll_to(y=0, animate=False, force=True)
                self._back_to = None
            elif not self._following:
                self.scroll_to(y=self.scroll_offset.y + grown, animate=False, force=True)
            await asyncio.sleep(BREATH)

    def _compose_lines(self) -> None:
        missing = len(self._items) - len(self._laid)
        waiting = f"◌ {count(missing, 'earlier question')} being laid out"
        head = [Content.styled(waiting, "$muted"), Content("")] if missing else list(self._header)
        self._lines = [*head, *chain.from_iterable(self._laid)]
        self._sized()

    def _sized(self) -> None:
        following = self._following
        self.virtual_size = Size(self._room, len(self._lines))
        if following:
            # Whether there is a scroll bar is known after the layout only: hence `force`.
            self.scroll_end(animate=False, immediate=True, force=True)
            self._following = True
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One line of what is on the screen."""
        at, width, style = self.scroll_offset.y + y, self.size.width, self.visual_style
        if at >= len(self._lines):
            return Strip.blank(width, style.rich_style)
        shown = self._lines[at]
        selection = self.text_selection
        span = selection.get_span(at) if selection is not None else None
        if span is not None:
            end = span[1] if span[1] >= 0 else len(shown)
            chosen = Style.from_styles(self.screen.get_component_styles("screen--selection"))
            shown = shown.stylize(chosen, span[0], end)
        strips = Visual.to_strips(self, shown, width, 1, style, apply_selection=False)
        line = strips[0] if strips else Strip.blank(0)
        return line.crop_extend(0, width, style.rich_style).apply_offsets(0, at)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text, as it stands on the screen."""
        text = "\n".join(line.plain.rstrip() for line in self._lines)
        return selection.extract(text), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selection."""
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """A click on code or a link copies it, one on the title of the reasoning shows it.

        A link is never opened: a model wrote it.
        """
        meta = event.style.meta
        if "code" in meta:
            self._copy(meta["code"], "Copied the code.")
        elif "link" in meta:
            self._copy(meta["link"], f"Copied the link: {one_line(meta['link'], 80)}")
        elif "thinking" in meta:
            self.toggle_thinking(meta["thinking"])
        elif "system" in meta:
            self.post_message(self.SystemWanted())

    def _copy(self, text: str, words: str) -> None:
        self.app.copy_to_clipboard(text)
        self.notify(words, markup=False)

"""The keys that work now, in one line at the bottom; each can be clicked.

One widget that draws text, not one widget per key: moving between panes changes all of them, and must
not take longer than a key press may.
"""

from dataclasses import dataclass

from textual import events
from textual.app import RenderResult
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget

from meshllm_tui.actions.registry import ACTIONS
from meshllm_tui.cleaning import cells

GAP = 2
"""Cells between two keys."""
_ONLY_IN = {action.id: action.footer for action in ACTIONS if isinstance(action.footer, str)}
"""The pane that a key is shown in, for keys that work elsewhere too."""


@dataclass(frozen=True)
class KeyHint:
    """A key, what it does, and where it is drawn."""

    key: str
    shown: str
    label: str
    tip: str
    start: int = 0

    @property
    def width(self) -> int:
        """Cells that it takes."""
        return cells(self.shown) + 1 + cells(self.label)


class KeyLine(Widget):
    """Shows the focused pane's keys, then those that work anywhere."""

    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__(id="keys")
        self._hints: tuple[KeyHint, ...] = ()

    def on_mount(self) -> None:
        """Follow the keys of whatever has the focus."""
        self.screen.bindings_updated_signal.subscribe(self, self._changed)
        self._changed(self.screen)

    def on_resize(self) -> None:
        """More room, more keys."""
        self._changed(self.screen)

    def _changed(self, screen: Screen[object]) -> None:
        if not self.is_attached or screen is not self.screen:
            return
        hints = self._fitting()
        if hints != self._hints:
            self._hints = hints
            self.refresh()

    def _fitting(self) -> tuple[KeyHint, ...]:
        """The keys that fit, in order; the palette's key stands at the right where there is room."""
        bindings = self.screen.active_bindings
        found: dict[str, KeyHint] = {}
        first: set[str] = set()
        pane = self._pane()
        for _, binding, enabled, tip in bindings.values():
            wanted = binding.show and _ONLY_IN.get(binding.id or "", pane) == pane
            if wanted and enabled and binding.action not in found:
                shown = self.app.get_key_display(binding)
                found[binding.action] = KeyHint(binding.key, shown, binding.description, tip)
                if binding.id in _ONLY_IN:
                    first.add(binding.action)
        # What only this pane shows is what a person comes to it for.
        own = [hint for action, hint in found.items() if action in first]
        ordered = own + [hint for action, hint in found.items() if action not in first]
        placed: list[KeyHint] = []
        start, end = 1, self.size.width
        palette = bindings.get(self.app.COMMAND_PALETTE_BINDING)
        if palette is not None and end >= 80:
            binding = palette.binding
            hint = KeyHint(binding.key, self.app.get_key_display(binding), "Palette", "Find any action.")
            end -= hint.width + 1
            placed.append(KeyHint(hint.key, hint.shown, hint.label, hint.tip, end))
        for hint in ordered:
            if start + hint.width + GAP <= end + GAP - 1:
                placed.append(KeyHint(hint.key, hint.shown, hint.label, hint.tip, start))
                start += hint.width + GAP
        return tuple(sorted(placed, key=lambda hint: hint.start))

    def _pane(self) -> str:
        """Id of the pane with the keyboard."""
        focused = self.screen.focused
        around = focused.ancestors_with_self if focused is not None else ()
        return next((widget.id or "" for widget in around if widget.has_class("pane")), "")

    def render(self) -> RenderResult:
        """One line of keys and words."""
        line, at = Content(""), 0
        for hint in self._hints:
            gap = " " * (hint.start - at)
            line += Content.assemble(gap, (hint.shown, "bold $accent-text"), f" {hint.label}")
            at = hint.start + hint.width
        return line

    def _at(self, x: int) -> KeyHint | None:
        return next((hint for hint in self._hints if hint.start <= x < hint.start + hint.width), None)

    def on_click(self, event: events.Click) -> None:
        """A click on a key is a press of it."""
        hint = self._at(event.x)
        if hint is not None:
            event.stop()
            self.app.simulate_key(hint.key)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Tell what the key under the mouse does."""
        hint = self._at(event.x)
        self.tooltip = hint.tip if hint else None

"""Rows where a first click chooses and a second one does what Enter does."""

from textual import events
from textual.content import Content

from meshllm_tui.widgets.pane import RowList


class PickList(RowList):
    """`action_main` is what Enter does; a click on a row that was not chosen only chooses it."""

    def __init__(self, id: str, title: str, *, divided: bool = False, classes: str = "pane") -> None:
        super().__init__(id, title, divided=divided, classes=classes)
        self._pressed_chosen = False

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Note whether the row under the mouse was the chosen one before."""
        option = event.style.meta.get("option")
        self._pressed_chosen = self.has_focus and option is not None and option == self.highlighted

    def on_option_list_option_selected(self, event: RowList.OptionSelected) -> None:
        """A click: Enter is bound to the action itself."""
        event.stop()
        if self._pressed_chosen:
            self._pressed_chosen = False
            self.action_main()

    def action_main(self) -> None:
        """What Enter does."""
        raise NotImplementedError

    def watch_highlighted(self, highlighted: int | None) -> None:
        """Another row may allow other actions."""
        super().watch_highlighted(highlighted)
        self.refresh_bindings()

    @property
    def room(self) -> int:
        """Cells of a row: without border, padding, and the scroll bar, so that rows fit when it comes."""
        return max(self.outer_size.width - 5, 20)

    def tell_stale(self, words: str, otherwise: str = "") -> None:
        """In the lower border: why what is shown may be old, else something of use."""
        under = Content(words or otherwise)
        if self.border_subtitle != under:
            self.border_subtitle = under

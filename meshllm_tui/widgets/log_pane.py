"""The log: what the node and the dashboard had to say."""

from meshllm_tui.keys import bindings_of
from meshllm_tui.present import NodeView, line, muted, plain, waiting_lines
from meshllm_tui.rows import log_lines
from meshllm_tui.widgets.pane import RowList


class LogPane(RowList):
    """One row per notice, oldest first. Follows the newest until a person moves up."""

    BINDINGS = bindings_of("log")

    def __init__(self) -> None:
        super().__init__("log", "Log")
        self._view = NodeView()
        self._said: tuple[object, ...] | None = None
        """The notices that are drawn."""
        self._following = True
        self._drawing = False

    def show(self, view: NodeView) -> None:
        """Draw `view`, if it says anything new."""
        self._view = view
        said = (view.snapshot.notices, view.local) if view.snapshot else None
        if said is not None and said == self._said:
            return
        self._said = said
        lines = log_lines(view)
        if not lines:
            empty = (line(muted("Nothing has been logged yet.")),)
            self.show_note(waiting_lines(view) if view.snapshot is None else empty)
            return
        # The same text may be logged twice in a second: the count from the front makes keys unique.
        keys, seen = [], dict[str, int]()
        for each in lines:
            text = plain((each,))
            seen[text] = seen.get(text, 0) + 1
            keys.append(f"{seen[text]} {text}")
        self._drawing = True
        drawn = self.show_rows(keys, [(each,) for each in lines])
        self._drawing = False
        if drawn and self._following:
            self.call_after_refresh(self.action_follow)

    def watch_highlighted(self, highlighted: int | None) -> None:
        """Moving off the last line stops following; moving back to it starts again."""
        super().watch_highlighted(highlighted)
        if self.has_focus and not self._drawing:
            self._following = highlighted is None or highlighted >= self.option_count - 1
            self.border_subtitle = "" if self._following else "f follows"

    def on_option_list_option_selected(self, event: RowList.OptionSelected) -> None:
        """Enter on a line copies it."""
        event.stop()
        self.action_copy()

    def on_show(self) -> None:
        """Be at the newest line when the pane comes into view."""
        super().on_show()
        if self._following:
            self.call_after_refresh(self.action_follow)

    def action_follow(self) -> None:
        """Go to the newest line and stay there."""
        self._following = True
        self.border_subtitle = ""
        if self.option_count and self.chosen is not None:
            self.highlighted = self.option_count - 1
        self.scroll_end(animate=False)

    def action_copy(self) -> None:
        """Copy the highlighted line."""
        index = self.highlighted
        lines = log_lines(self._view)
        if index is not None and index < len(lines):
            self.app.copy_to_clipboard(plain((lines[index],)))
            self.notify("Copied the line.", markup=False)

    def action_copy_all(self) -> None:
        """Copy the whole log."""
        self.app.copy_to_clipboard(plain(log_lines(self._view)))
        self.notify("Copied the log.", markup=False)

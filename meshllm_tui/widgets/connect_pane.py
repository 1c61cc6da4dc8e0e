"""What connects other programs to this node: a list of apps, and the chosen one's text."""

from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static

from meshllm_core.api.snippets import APPS, APPS_BY_NAME
from meshllm_tui.connect_rows import snippet, snippet_lines
from meshllm_tui.keys import bindings_of
from meshllm_tui.present import Line, NodeView, line
from meshllm_tui.widgets.pane import RowList
from meshllm_tui.widgets.styled import content


class ConnectPane(Horizontal):
    """The apps at the left, what the chosen one needs at the right."""

    BINDINGS = bindings_of("connect")

    def __init__(self) -> None:
        super().__init__(id="connect", classes="pane")
        self.border_title = Content("Connect an app")
        self._view = NodeView()
        self._lines: tuple[Line, ...] = ()

    def compose(self) -> ComposeResult:
        """Apps and text."""
        yield RowList("apps", "", classes="")
        with VerticalScroll(id="snippet-box", can_focus=False):
            yield Static(id="snippet", markup=False)

    @property
    def _apps(self) -> RowList:
        return self.query_one("#apps", RowList)

    def show(self, view: NodeView) -> None:
        """Draw `view`, if it says anything new."""
        self._view = view
        self._apps.show_rows(tuple(APPS_BY_NAME), [(line(app.title),) for app in APPS])
        lines = snippet_lines(view, APPS_BY_NAME[self._apps.chosen or APPS[0].name])
        if lines != self._lines:
            self._lines = lines
            self.query_one("#snippet", Static).update(content(lines))
            self.refresh_bindings()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show the chosen app's text from its beginning."""
        event.stop()
        self.show(self._view)
        self.query_one("#snippet-box", VerticalScroll).scroll_home(animate=False)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A click shows the text; Enter copies it too."""
        event.stop()
        self.action_copy()

    def focus_main(self) -> None:
        """Give the keyboard to this pane."""
        self._apps.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is something to copy only when the node has told its address."""
        return action != "copy" or bool(self._view.snapshot and self._view.snapshot.api_url)

    def action_copy(self) -> None:
        """Copy what connects the chosen app."""
        app = APPS_BY_NAME[self._apps.chosen or APPS[0].name]
        text = snippet(self._view, app.name)
        if text:
            self.app.copy_to_clipboard(text)
            self.notify(f"Copied it. {app.where}", markup=False)

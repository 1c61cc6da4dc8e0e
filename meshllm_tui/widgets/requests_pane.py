"""The requests of the endpoint: a row each, and all that is known of the chosen one."""

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static

from meshllm_core.state.snapshot import RequestView
from meshllm_tui.keys import bindings_of
from meshllm_tui.present import Line, NodeView, plain
from meshllm_tui.request_rows import (
    SHOWN,
    Shown,
    as_json,
    chosen_requests,
    empty_requests,
    header,
    list_title,
    request_facts,
    request_line,
)
from meshllm_tui.widgets.pane import RowList
from meshllm_tui.widgets.styled import content


class RequestList(RowList):
    """The rows; its own Enter carries the pane's word for it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select", "Phases", key_display="Enter", tooltip="Show where the time went.")
    ]

    def __init__(self) -> None:
        super().__init__("request-list", "", classes="")


class RequestsPane(Vertical):
    """One row per request, newest first."""

    BINDINGS = bindings_of("requests")

    class Chosen(Message):
        """Another request is chosen, or none."""

    class Wanted(Message):
        """A person asked for something to be done with a request."""

        def __init__(self, what: str, request: RequestView) -> None:
            super().__init__()
            self.what = what
            """details or cancel."""
            self.request = request

    def __init__(self) -> None:
        super().__init__(id="requests", classes="pane")
        self._view = NodeView()
        self._shown: Shown = "all"
        self._rows: dict[str, RequestView] = {}
        self._header: Line = ()
        self.border_title = Content("Requests")

    def compose(self) -> ComposeResult:
        """Names of the columns, then rows."""
        yield Static(id="request-header", markup=False)
        yield RequestList()

    @property
    def _list(self) -> RequestList:
        return self.query_one(RequestList)

    @property
    def chosen(self) -> RequestView | None:
        """The highlighted request."""
        key = self._list.chosen
        return self._rows.get(key) if key is not None else None

    def show(self, view: NodeView) -> None:
        """Draw `view`, if it says anything new."""
        self._view = view
        title = Content(list_title(view, self._shown))
        if self.border_title != title:
            self.border_title = title
        # The rows' own padding, and room for the scroll bar.
        width = max(self.content_region.width - 3, 30)
        found = chosen_requests(view, self._shown)
        if not found:
            self._rows = {}
            self._head(())
            self._list.show_note(empty_requests(view, self._shown))
        else:
            self._head(header(width))
            newest = self._list.highlighted == 0 and not self._list.has_focus
            self._rows = dict(zip(_keys(found), found, strict=True))
            rows = [(request_line(request, view, width),) for request in found]
            if self._list.show_rows(tuple(self._rows), rows):
                self.refresh_bindings()
            if newest:
                self._list.highlighted = 0

    def _head(self, names: Line) -> None:
        if names != self._header:
            self._header = names
            line = self.query_one("#request-header", Static)
            line.update(content([names]))
            line.display = bool(names)

    def on_resize(self, _: events.Resize) -> None:
        """Fit the columns to the new width."""
        self.show(self._view)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Another request may allow other actions, and its facts are shown."""
        event.stop()
        self.refresh_bindings()
        self.post_message(self.Chosen())

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter or a click on a row shows where its time went."""
        event.stop()
        self.action_details()

    def focus_main(self) -> None:
        """Give the keyboard to this pane."""
        self._list.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Most need a row; cancel needs one that runs."""
        if action in ("details", "copy", "copy_id"):
            return self.chosen is not None
        if action == "cancel":
            return self.chosen is not None and self.chosen.status == "running"
        return True

    def _want(self, what: str) -> None:
        request = self.chosen
        if request is not None:
            self.post_message(self.Wanted(what, request))

    def action_details(self) -> None:
        """Show where the chosen request's time went."""
        self._want("details")

    def action_cancel(self) -> None:
        """Cancel the chosen request."""
        self._want("cancel")

    def action_turn(self) -> None:
        """List others."""
        self._shown = SHOWN[(SHOWN.index(self._shown) + 1) % len(SHOWN)]
        self.show(self._view)
        self.post_message(self.Chosen())
        self.refresh_bindings()

    def action_copy(self) -> None:
        """Copy the chosen request as a line of JSON."""
        if self.chosen is not None:
            self.app.copy_to_clipboard(as_json(self.chosen))
            self.notify("Copied the request as JSON.", markup=False)

    def action_copy_id(self) -> None:
        """Copy the chosen request's id."""
        if self.chosen is not None:
            self.app.copy_to_clipboard(self.chosen.id)
            self.notify("Copied the request's id.", markup=False)


def _keys(found: tuple[RequestView, ...]) -> list[str]:
    """A key per row. A client may give the same id twice."""
    seen: dict[str, int] = {}
    keys = []
    for request in reversed(found):
        seen[request.id] = seen.get(request.id, 0) + 1
        keys.append(f"{seen[request.id]} {request.id}")
    return keys[::-1]


class RequestPane(VerticalScroll):
    """All that is known of one request."""

    BINDINGS = bindings_of("request")

    def __init__(self) -> None:
        super().__init__(id="request", classes="pane")
        self.border_title = Content("Request")
        self._view = NodeView()
        self._request: RequestView | None = None
        self._lines: tuple[Line, ...] = ()

    def compose(self) -> ComposeResult:
        """The text that holds all facts."""
        yield Static(id="request-facts", markup=False)

    def choose(self, request: RequestView | None) -> None:
        """Tell of this request from now on."""
        self._request = request
        self.show(self._view)

    def show(self, view: NodeView) -> None:
        """Draw `view`, if it says anything new."""
        self._view = view
        lines = request_facts(self._request, view, max(self.outer_size.width - 5, 20))
        if lines != self._lines:
            self._lines = lines
            self.query_one("#request-facts", Static).update(content(lines))
            self.refresh_bindings()

    def on_resize(self, _: events.Resize) -> None:
        """Fit the lines to the new width."""
        self.show(self._view)

    def focus_main(self) -> None:
        """Give the keyboard to this pane."""
        self.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is something to copy only when a request is chosen."""
        return action != "copy" or self._request is not None

    def action_copy(self) -> None:
        """Copy what is told of the request."""
        self.app.copy_to_clipboard(plain(self._lines))
        self.notify("Copied what is told of the request.", markup=False)

"""The page of requests: the endpoint's live log with its timing, and how apps are connected to it."""

from functools import partial

from textual.app import ComposeResult
from textual.containers import Horizontal

from meshllm_core.state.snapshot import RequestView
from meshllm_tui.cleaning import fit
from meshllm_tui.pages.page import MEDIUM, WIDE, Page
from meshllm_tui.present import NodeView
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.widgets.connect_pane import ConnectPane
from meshllm_tui.widgets.requests_pane import RequestPane, RequestsPane


class RequestsPage(Page):
    """What the endpoint answers, and where the time goes."""

    NAME = "requests"
    PANES = ("requests", "request", "connect")
    FIRST = "requests"

    def body(self) -> ComposeResult:
        """The list above, the chosen request and the apps below."""
        yield RequestsPane()
        with Horizontal(id="below-requests"):
            yield RequestPane()
            yield ConnectPane()

    def place_panes(self) -> None:
        """All three where there is room; else the list and one below it; else the pane with the keyboard."""
        columns, _ = self.app.size
        active, narrow = self.active, columns < MEDIUM
        below = "connect" if active == "connect" else "request"
        shown = {name: not narrow or name == active for name in self.PANES}
        if not narrow and columns < WIDE:
            shown["request"], shown["connect"] = below == "request", below == "connect"
        for name in self.PANES:
            self.query_one(f"#{name}").display = shown[name]
        self.query_one("#below-requests").display = shown["request"] or shown["connect"]

    def show(self, view: NodeView) -> None:
        """Draw what is new; the chosen request may have gone on."""
        super().show(view)
        self._tell()

    def on_requests_pane_chosen(self, event: RequestsPane.Chosen) -> None:
        """Tell of the chosen request."""
        event.stop()
        self._tell()

    def _tell(self) -> None:
        self.query_one(RequestPane).choose(self.query_one(RequestsPane).chosen)

    def on_requests_pane_wanted(self, event: RequestsPane.Wanted) -> None:
        """Show where a request's time went, or cancel it."""
        event.stop()
        request = event.request
        if event.what == "details":
            self._tell()
            self.go("request")
            return
        text = f"It asks {fit(request.model, 40)}. Its client gets what was answered so far, and an end."
        answers = (("keep", "Let it run"), ("cancel", "Cancel it"))
        self.app.push_screen(AskScreen("Cancel this request?", text, answers), partial(self._cancel, request))

    def _cancel(self, request: RequestView, answer: str | None) -> None:
        if answer == "cancel":
            self.dashboard.act("cancel", "Cancelled the request.", request=request.id)

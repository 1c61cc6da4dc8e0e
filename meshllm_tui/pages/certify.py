"""The page of certificates: which number formats a model stands between stages, and how that is known."""

from textual import work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from meshllm_core.api.schema_certify import Certificates
from meshllm_core.errors import MeshError
from meshllm_tui.certify_words import Measurement
from meshllm_tui.cleaning import fit
from meshllm_tui.keys import bindings_of
from meshllm_tui.messages import ActionDone
from meshllm_tui.pages.page import MEDIUM, KeyedPage
from meshllm_tui.present import NodeView
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.screens.measure import MeasureScreen, Wish
from meshllm_tui.widgets.certify_panes import EvidencePane, MeasurementPane, RecordsPane
from meshllm_tui.widgets.search_list import SearchList
from meshllm_tui.widgets.text_pane import TextPane


class CertifyPage(KeyedPage):
    """Records left, evidence right, the measurement below."""

    NAME = "certify"
    PANES = ("records", "evidence", "measurement")
    FIRST = "records"
    BINDINGS = bindings_of("certify")
    _seen: tuple[object, ...] | None = None
    """What a new answer may come of: link, state and start of the measurement."""

    def body(self) -> ComposeResult:
        """The panes."""
        with Vertical(id="certify-panes"):
            with Horizontal(id="certify-above"):
                yield RecordsPane()
                yield EvidencePane(lambda: self.records.chosen)
            yield MeasurementPane()

    @property
    def records(self) -> RecordsPane:
        """The list."""
        return self.query_one(RecordsPane)

    def place_panes(self) -> None:
        """Both columns where there is room; else the evidence only while it has the keyboard."""
        narrow, evidence = self.app.size.width < MEDIUM, self.active == "evidence"
        self.query_one("#records").display = not (narrow and evidence)
        self.query_one("#evidence").display = not narrow or evidence

    def on_mount(self) -> None:
        """Ask at once."""
        super().on_mount()
        self._ask()

    def show(self, view: NodeView) -> None:
        """Draw what is new; ask anew after a measurement, and when the node is back."""
        super().show(view)
        known = view.snapshot.certification if view.snapshot is not None else None
        seen = (view.link, known.state if known else "", known.started_at if known else 0.0)
        if self._seen is not None and seen != self._seen:
            self.refresh_bindings()
            if view.link == "live" and seen[1] != "running":
                self._ask()
        self._seen = seen

    @work(group="certificates", exclusive=True, exit_on_error=False)
    async def _ask(self) -> None:
        answer: Certificates | MeshError
        try:
            answer = await self.session.client.ask("certificates", Certificates)
        except MeshError as error:
            answer = error
            if isinstance(self.records.answer, Certificates):
                self.notify(str(error)[:300], severity="warning", markup=False)
        self.records.take(answer)

    def on_search_list_searched(self, event: SearchList.Searched) -> None:
        """List what is found."""
        event.stop()
        self.records.draw()

    def on_search_list_moved(self, event: SearchList.Moved) -> None:
        """Show the chosen record's evidence."""
        event.stop()
        self.query_one(EvidencePane).show(self.session.view())
        self.refresh_bindings()

    def on_search_list_opened(self, event: SearchList.Opened) -> None:
        """Go to the evidence."""
        event.stop()
        self.go("evidence")

    def on_text_pane_resized(self, event: TextPane.Resized) -> None:
        """Lines are made for a width."""
        event.stop()
        self.show(self.session.view())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what runs can be cancelled; only what is chosen can be copied."""
        if action == "cancel":
            return self.measuring
        if action == "copy":
            return self.is_mounted and self.records.chosen is not None
        return True

    @property
    def measuring(self) -> bool:
        """Whether a measurement runs."""
        snapshot = self.session.snapshot
        view = snapshot.certification if snapshot is not None else None
        return view is not None and view.state == "running"

    def action_search(self) -> None:
        """Write a search."""
        self.go("records")
        self.records.focus_search()

    def action_opposites(self) -> None:
        """List only look-alikes with opposite verdicts, or all again."""
        records = self.records
        records.only_opposites = not records.only_opposites
        records.border_title = "Records: opposite look-alikes" if records.only_opposites else "Records"
        records.draw()
        self.go("records")

    def action_ask(self) -> None:
        """Read the records again."""
        self.records.take(None)
        self._ask()

    def action_copy(self) -> None:
        """Copy the chosen record with its evidence."""
        if self.records.chosen is not None:
            self.app.copy_to_clipboard(self.query_one(EvidencePane).text)
            self.notify("Copied the evidence.", markup=False)

    def action_measure(self) -> None:
        """Ask which model to measure."""
        snapshot, chosen = self.session.snapshot, self.records.chosen
        models = [model.id for model in snapshot.models if model.path] if snapshot is not None else []
        wish = None
        if isinstance(chosen, Measurement) and chosen.first.name:
            first = chosen.first
            named = first.name.rpartition("/")[2].removesuffix(".gguf")
            name = next((model for model in models if model == named), first.name)
            wish = Wish(name, first.cuts, ())
        self.app.push_screen(MeasureScreen(self._measure, models, wish))

    async def _measure(self, wish: Wish) -> None:
        await self.session.act(
            "certify", model=wish.model, cuts=list(wish.cuts) or None, codecs=list(wish.codecs) or None
        )
        self.dashboard.post_message(ActionDone(f"Measuring {fit(wish.model, 60)}."))

    def action_cancel(self) -> None:
        """Cancel the measurement, after asking."""
        if self.measuring:
            text = "What was measured so far is not kept."
            answers = (("keep", "Let it run"), ("cancel", "Cancel it"))
            self.app.push_screen(AskScreen("Cancel the measurement?", text, answers), self._cancel)

    def _cancel(self, answer: str | None) -> None:
        if answer == "cancel":
            self.dashboard.act("cancel_certify", "Cancelled the measurement.")

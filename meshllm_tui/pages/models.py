"""The page of models: what runs where, what is on the disk, what there is, and what is on its way."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.timer import Timer

from meshllm_core.api.schema_models import (
    Catalog,
    CatalogModel,
    HubModel,
    HubRepo,
    HubSearch,
    Library,
    LibraryModel,
)
from meshllm_core.errors import MeshError
from meshllm_core.ids import ModelId
from meshllm_core.state.download_events import DownloadRow
from meshllm_core.state.snapshot import ModelView
from meshllm_tui.cleaning import fit, one_line
from meshllm_tui.fit_words import fit_state
from meshllm_tui.models_words import (
    Asked,
    Offer,
    cancel_question,
    catalog_offer,
    delete_obstacle,
    delete_question,
    file_offer,
    offer_question,
)
from meshllm_tui.pages.page import MEDIUM, Page
from meshllm_tui.present import NodeView
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.screens.choose import ChooseScreen
from meshllm_tui.units import size
from meshllm_tui.widgets.catalog_pane import CatalogPane
from meshllm_tui.widgets.downloads_pane import DownloadsPane
from meshllm_tui.widgets.library_pane import LibraryPane
from meshllm_tui.widgets.running_pane import RunningPane

if TYPE_CHECKING:
    from meshllm_tui.pages.plan import PlanPage
    from meshllm_tui.pages.split import SplitPage

Answer = TypeVar("Answer")
ASK_SECONDS = 2.0
"""Between two times that disk and catalogue are asked for because something changed."""


class ModelsPage(Page):
    """Disk, catalogue and hub are asked for when the page opens and whenever something changed them."""

    NAME = "models"
    PANES = ("running", "library", "catalog", "downloads")
    FIRST = "catalog"

    _library: Asked[Library] = Asked()
    _catalog: Asked[Catalog] = Asked()
    _searches = 0
    _seen: object = None
    """What the answers depend on, as it was when they were asked for."""
    _asked_at = -ASK_SECONDS
    _waiting: Timer | None = None

    def body(self) -> ComposeResult:
        """What is here at the left, what there is at the right."""
        with Horizontal(id="models-panes"):
            with Vertical(id="models-here"):
                yield RunningPane()
                yield LibraryPane()
            with Vertical(id="models-there"):
                yield CatalogPane()
                yield DownloadsPane()

    def place_panes(self) -> None:
        """Two columns where there is room, else the pane with the keyboard."""
        narrow = self.app.size.width < MEDIUM
        shown = {name: not narrow or name == self.active for name in self.PANES}
        for name in self.PANES:
            self.query_one(f"#{name}").display = shown[name]
        self.query_one("#models-here").display = shown["running"] or shown["library"]
        self.query_one("#models-there").display = shown["catalog"] or shown["downloads"]

    def show(self, view: NodeView) -> None:
        """Draw the panes; ask again where something happened that changes the answers."""
        super().show(view)
        if view.snapshot is None or view.link != "live":
            return
        seen = (
            tuple((model.id, model.status, model.path) for model in view.snapshot.models),
            tuple((row.id, row.state) for row in view.snapshot.downloads),
            tuple((peer.node, peer.status, peer.memory_lent >> 30) for peer in view.snapshot.peers),
        )
        if seen != self._seen:
            self._seen = seen
            self._ask_soon()

    def on_screen_suspend(self) -> None:
        """While another page is shown, files and free memory may change; a dialog over this one is short."""
        if self.app.current_mode != self.NAME:
            self._seen = None

    def _ask_soon(self) -> None:
        """At once, but not more often than every ASK_SECONDS: members may change many times a second."""
        if self._waiting is None:
            left = self._asked_at + ASK_SECONDS - time.monotonic()
            self._waiting = self.set_timer(max(left, 0.01), self._ask_now)

    def _ask_now(self) -> None:
        self._waiting = None
        self._asked_at = time.monotonic()
        self.ask_again()

    # Asking -----------------------------------------------------------------------------------------

    def ask_again(self) -> None:
        """Ask what is on the disk and what there is."""
        self.dashboard.run_asking("library", self._ask_library())
        self.dashboard.run_asking("catalog", self._ask_catalog())

    async def _ask_library(self) -> None:
        self._library = await self._asked("library", Library, self._library, self._tell_library)
        self._tell_library(self._library)

    async def _ask_catalog(self) -> None:
        self._catalog = await self._asked("catalog", Catalog, self._catalog, self._tell_catalog)
        self._tell_catalog(self._catalog)

    def _tell_library(self, asked: Asked[Library]) -> None:
        self.query_one(LibraryPane).tell(asked)

    def _tell_catalog(self, asked: Asked[Catalog]) -> None:
        self.query_one(CatalogPane).tell(asked)

    async def _asked(
        self, name: str, kind: type[Answer], before: Asked[Answer], tell: Callable[[Asked[Answer]], None]
    ) -> Asked[Answer]:
        tell(Asked(before.answer, asking=True))
        try:
            return Asked(await self.session.client.ask(name, kind))
        except MeshError as error:
            return Asked(before.answer, (error.message, error.hint))

    def search(self, query: str) -> None:
        """Ask the hub; what an earlier search finds later is not shown any more."""
        self._searches += 1
        self.dashboard.run_asking("search", self._search(query, self._searches))

    async def _search(self, query: str, number: int) -> None:
        pane = self.query_one(CatalogPane)
        pane.tell_found(query, Asked(asking=True))
        found: Asked[HubSearch]
        try:
            found = Asked(await self.session.client.ask("hub/search", HubSearch, query=query))
        except MeshError as error:
            found = Asked(None, (error.message, error.hint))
        if number == self._searches:
            pane.tell_found(query, found)

    # Doing ------------------------------------------------------------------------------------------

    def load(self, ref: str, name: str, *, split: bool | None = None) -> None:
        """Load a model."""
        given = {} if split is None else {"split": split}
        self.dashboard.act("load", f"Loading {one_line(name, 80)}.", model=ref, **given)

    def chat(self, name: str, own: ModelView | None) -> None:
        """Let a model answer in the chat."""
        if own is not None and (own.status != "ready" or not own.chat):
            reason = "does not chat" if own.status == "ready" else f"is not ready: {own.status}"
            self.notify(f"{one_line(name, 80)} {reason}.", severity="warning", markup=False)
            return
        self.dashboard.chat_with(ModelId(name))

    def unload(self, model: ModelId) -> None:
        """Unload a model of this node, after asking."""
        name = one_line(model, 80)

        def answered(answer: str | None) -> None:
            if answer == "unload":
                self.dashboard.act("unload", f"Unloaded {name}.", model=model)

        text = "Requests that it is answering will end with an error. Its files stay."
        answers = (("cancel", "Keep it"), ("unload", "Unload"))
        self.app.push_screen(AskScreen(f"Unload {fit(name, 40)}?", text, answers), answered)

    def stages(self, model: ModelId) -> None:
        """Show how a model is spread over machines."""
        self.dashboard.call_next(self._stages, model)

    async def _stages(self, model: ModelId) -> None:
        page = cast("SplitPage", await self.dashboard.open("split", "splits"))
        page.choose(model)

    async def _plan(self, ref: str) -> None:
        page = cast("PlanPage", await self.dashboard.open("plan", "wishes"))
        page.choose(ref)

    def delete(self, model: LibraryModel) -> None:
        """Delete a model that nothing uses, after asking."""
        if obstacle := delete_obstacle(model):
            self.notify(obstacle, severity="warning", markup=False)
            return

        def answered(answer: str | None) -> None:
            if answer == "delete":
                done = f"Deleted {one_line(model.id, 80)}; {size(model.bytes_here)} are free again."
                self._then_ask("delete_model", done, model=model.key)

        answers = (("cancel", "Keep it"), ("delete", "Delete"))
        self.app.push_screen(AskScreen(*delete_question(model), answers), answered)

    def _then_ask(self, name: str, done: str, **arguments: object) -> None:
        async def act() -> None:
            await self.session.act(name, **arguments)
            self.notify(one_line(done), markup=False)
            self.ask_again()

        self.dashboard.run_asking(name, act())

    def download(self, ref: str, name: str, *, any_size: bool = False) -> None:
        """Download a model without loading it."""
        given = {"any_size": True} if any_size else {}
        self.dashboard.act("download", f"Downloading {one_line(name, 80)}.", model=ref, **given)

    def pause(self, row: DownloadRow) -> None:
        """Pause a download, or let it go on."""
        name = one_line(row.model or row.ref, 80)
        if row.state in ("waiting", "downloading"):
            self.dashboard.act("pause_download", f"Paused {name}.", download=row.id)
        else:
            self.dashboard.act("resume_download", f"{name} goes on.", download=row.id)

    def cancel(self, row: DownloadRow) -> None:
        """End a download, after asking where something would be lost."""
        name = one_line(row.model or row.ref, 80)

        def answered(answer: str | None) -> None:
            if answer == "cancel":
                self.dashboard.act("cancel_download", f"Cancelled {name}.", download=row.id)

        if row.state == "done":
            self.dashboard.act("cancel_download", f"Took {name} from the list.", download=row.id)
        elif not row.bytes_done:
            answered("cancel")
        else:
            answers = (("keep", "Keep it"), ("cancel", "Cancel it"))
            self.app.push_screen(AskScreen(*cancel_question(row), answers), answered)

    # Offers -----------------------------------------------------------------------------------------

    def get(self, offer: CatalogModel | HubModel) -> None:
        """Ask what is to be done with a model; of a repository first which one."""
        if isinstance(offer, CatalogModel):
            self._ask_about(catalog_offer(offer))
        else:
            self.dashboard.run_asking("hub", self._choose(offer.repo))

    def download_offer(self, offer: CatalogModel | HubModel) -> None:
        """Download what fits here; ask about what does not."""
        if offer.fit.kind != "here":
            self.get(offer)
        elif isinstance(offer, CatalogModel):
            self.download(offer.ref, offer.id)
        else:
            self.download(f"{offer.repo}:{offer.quant}" if offer.quant else offer.repo, offer.repo)

    async def _choose(self, repo: str) -> None:
        """Which quantization: with true sizes, which a search does not tell."""
        answer = await self.session.client.ask("hub/models", HubRepo, repo=repo)
        offers = {offer.ref: offer for offer in map(file_offer, answer.models)}
        if not offers:
            self.notify(f"{fit(repo, 60)} holds no GGUF model.", severity="warning", markup=False)
            return
        rows = [
            (offer.ref, f"{fit_state(offer.fit).glyph} {size(offer.bytes):>9}  {fit(offer.name, 40)}")
            for offer in offers.values()
        ]
        choose = ChooseScreen(f"Which one of {fit(repo, 40)}?", rows)
        self.app.push_screen(choose, partial(self._chosen, offers))

    def _chosen(self, offers: dict[str, Offer], ref: str | None) -> None:
        if ref is not None:
            self._ask_about(offers[ref])

    def _ask_about(self, offer: Offer) -> None:
        title, text, answers = offer_question(offer)
        self.app.push_screen(AskScreen(title, text, answers), partial(self._answered, offer))

    def _answered(self, offer: Offer, answer: str | None) -> None:
        does: dict[str, Callable[[], Awaitable[None] | None]] = {
            "load": lambda: self.load(offer.ref, offer.name),
            "split": lambda: self.load(offer.ref, offer.name, split=True),
            "plan": lambda: self.dashboard.call_next(self._plan, offer.ref),
            "download": lambda: self.download(offer.ref, offer.name),
            "any": lambda: self.download(offer.ref, offer.name, any_size=True),
        }
        if answer in does:
            does[answer]()

"""The catalogue, and what the hub holds: one list below one line to search in."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static

from meshllm_core.api.schema_models import Catalog, CatalogModel, HubModel, HubSearch
from meshllm_tui.cleaning import fit
from meshllm_tui.keys import bindings_of
from meshllm_tui.models_rows import catalog_row, hub_row
from meshllm_tui.models_words import Asked, catalog_facts, hub_facts, matching
from meshllm_tui.present import Line, NodeView, Span, line, muted
from meshllm_tui.widgets.picking import PickList
from meshllm_tui.widgets.styled import content

if TYPE_CHECKING:
    from meshllm_tui.pages.models import ModelsPage

QUERY_LIMIT = 200
"""Characters of a search."""


class SearchLine(Input):
    """What is searched for; ↓ goes to what was found."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "down", "Results", key_display="↓"),
        Binding("enter", "submit", "Ask the hub", key_display="Enter", tooltip="Search the hub for it."),
    ]

    def __init__(self) -> None:
        super().__init__(
            id="search", placeholder="/ to search, Enter asks the hub", max_length=QUERY_LIMIT, compact=True
        )
        self.cursor_blink = False

    def action_down(self) -> None:
        """Go to the rows."""
        self.screen.query_one(OfferList).focus()


class OfferList(PickList):
    """The rows; their own Enter carries the pane's word for it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "main", "Get", key_display="Enter", tooltip="Fetch, load or split it; asks first.")
    ]

    def __init__(self) -> None:
        super().__init__("offers", "", classes="")

    def action_main(self) -> None:
        """A second click is Enter."""
        self.screen.query_one(CatalogPane).action_get()


class CatalogPane(Vertical):
    """What can be had, with marks that say where it fits."""

    BINDINGS = bindings_of("catalog")

    def __init__(self) -> None:
        super().__init__(id="catalog", classes="pane")
        self._view = NodeView()
        self._catalog: Asked[Catalog] = Asked()
        self._found: Asked[HubSearch] = Asked()
        self._query = ""
        """What the hub was asked for last; empty: it was not."""
        self._offers: dict[str, CatalogModel | HubModel] = {}
        self._facts: tuple[Line, ...] = ()
        self._note: tuple[Line, ...] = ()
        self._drawn: tuple[object, ...] = ()
        self.border_title = Content("Catalogue")

    def compose(self) -> ComposeResult:
        """Search, rows, what the hub says, facts of the chosen row."""
        yield SearchLine()
        yield OfferList()
        yield Static(id="catalog-note", markup=False)
        yield Static(id="catalog-facts", markup=False)

    @property
    def _page(self) -> "ModelsPage":
        return cast("ModelsPage", self.screen)

    @property
    def _list(self) -> OfferList:
        return self.query_one(OfferList)

    @property
    def _search(self) -> SearchLine:
        return self.query_one(SearchLine)

    def tell(self, asked: Asked[Catalog]) -> None:
        """Another answer about the catalogue."""
        self._catalog = asked
        self.show(self._view)

    def tell_found(self, query: str, found: Asked[HubSearch]) -> None:
        """What the hub said to a search; an empty query is none."""
        self._query, self._found = query, found
        self.show(self._view)

    def focus_main(self) -> None:
        """Give the keyboard to the rows."""
        self._list.focus()

    def show(self, view: NodeView) -> None:
        """Draw what is new."""
        self._view = view
        if not self.is_mounted:
            return
        width = max(self.content_region.width - 3, 20)
        drawn = (self._catalog, self._found, self._query, self._search.value, width)
        if drawn == self._drawn and view.link == "live":
            return
        self._drawn = drawn if view.link == "live" else ()
        self._frame()
        self._offers = dict(self._rows())
        if self._catalog.answer is None and not self._offers:
            self._list.show_note(self._catalog.note(view, "asking for the catalogue…"))
        elif not self._offers:
            self._list.show_note(self._nothing())
        else:
            rows = [(self._row(offer, width),) for offer in self._offers.values()]
            if self._list.show_rows(tuple(self._offers), rows):
                self.refresh_bindings()
        self._tell_note(self._hub_note())
        self._show_facts()

    def _rows(self) -> Iterator[tuple[str, CatalogModel | HubModel]]:
        models = self._catalog.answer.models if self._catalog.answer is not None else ()
        for model in matching(models, self._search.value):
            yield f"catalog:{model.id}", model
        for found in self._found.answer.models if self._query and self._found.answer is not None else ():
            yield f"hub:{found.repo}", found

    def _row(self, offer: CatalogModel | HubModel, width: int) -> Line:
        return catalog_row(offer, width) if isinstance(offer, CatalogModel) else hub_row(offer, width)

    def _frame(self) -> None:
        title = Content(f"Hub: {fit(self._query, 30)}" if self._query else "Catalogue")
        if self.border_title != title:
            self.border_title = title
        under = Content(self._catalog.stale(self._view) or "● here ○ there ◐ split ✗ none")
        if self.border_subtitle != under:
            self.border_subtitle = under

    def _nothing(self) -> tuple[Line, ...]:
        if self._query or not self._search.value:
            return (line("Nothing was found."),)
        return (
            line("Nothing in the catalogue is called so."),
            line(Span("Enter", "accent"), muted(" asks the hub.")),
        )

    def _hub_note(self) -> tuple[Line, ...]:
        if not self._query:
            return ()
        if self._found.asking:
            return (line(Span("◌ asking the hub…", "accent")),)
        message, hint = self._found.error
        if message:
            return (line(Span(fit(f"✗ {message}", 400), "bad")), line(muted(fit(hint, 300))))
        if self._found.answer is not None and not self._found.answer.models:
            return (line(muted(f"The hub has no GGUF model called {fit(self._query, 60)}.")),)
        return ()

    def _tell_note(self, note: tuple[Line, ...]) -> None:
        if note != self._note:
            self._note = note
            below = self.query_one("#catalog-note", Static)
            below.update(content(note))
            below.display = bool(note)

    def _show_facts(self) -> None:
        width, offer = max(self.content_region.width - 2, 20), self.offer
        facts: tuple[Line, ...] = ()
        if isinstance(offer, CatalogModel):
            facts = catalog_facts(offer, width)
        elif offer is not None:
            facts = hub_facts(offer, width)
        if facts != self._facts:
            self._facts = facts
            self.query_one("#catalog-facts", Static).update(content(facts), layout=False)

    @property
    def offer(self) -> CatalogModel | HubModel | None:
        """The chosen row."""
        chosen = self._list.chosen
        return self._offers.get(chosen) if chosen is not None else None

    def on_resize(self, _: events.Resize) -> None:
        """Fit the rows to the new width."""
        self.show(self._view)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Another row, other facts."""
        event.stop()
        self._show_facts()
        self.refresh_bindings()

    def on_input_changed(self, event: Input.Changed) -> None:
        """The catalogue's rows follow each letter; what the hub said was about other words."""
        event.stop()
        if self._query and event.value.strip() != self._query:
            self._query, self._found = "", Asked()
        self.show(self._view)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Ask the hub."""
        event.stop()
        if query := event.value.strip():
            self._page.search(query)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Most need a row, and the keyboard not to be in the search."""
        if not self.is_mounted:
            return True
        if action in ("get", "download", "copy"):
            return self.offer is not None and not self._search.has_focus
        if action == "search":
            return not self._search.has_focus
        if action == "back":
            return self._search.has_focus or bool(self._search.value)
        return True

    def action_search(self) -> None:
        """Go to the search."""
        self._search.focus()

    def action_back(self) -> None:
        """From the search to the rows; from there to the whole catalogue."""
        if not self._search.has_focus:
            self._search.value = ""
        self._list.focus()

    def action_get(self) -> None:
        """Fetch, load or split the chosen model."""
        if (offer := self.offer) is not None:
            self._page.get(offer)

    def action_download(self) -> None:
        """Download the chosen model."""
        if (offer := self.offer) is not None:
            self._page.download_offer(offer)

    def action_copy(self) -> None:
        """Copy what loads the chosen model."""
        if (offer := self.offer) is not None:
            self.app.copy_to_clipboard(offer.ref if isinstance(offer, CatalogModel) else offer.repo)
            self.notify("Copied what loads the model.", markup=False)

    def action_again(self) -> None:
        """Ask for the marks again."""
        self._page.ask_again()

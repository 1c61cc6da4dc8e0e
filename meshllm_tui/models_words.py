"""Sentences of the page of models: what is missing, what is asked before it is done. No Textual here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from meshllm_core.api.schema_models import CatalogModel, FitMark, HubFile, HubModel, LibraryModel
from meshllm_core.state.download_events import DownloadRow
from meshllm_tui.cleaning import cells, fit, one_line
from meshllm_tui.fit_words import fit_figures, fit_sentence, fit_state
from meshllm_tui.present import Line, NodeView, Span, error_lines, line, link_words, muted, waiting_lines
from meshllm_tui.units import count, parameters, size

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Asked(Generic[Answer]):
    """What was asked of the node, and what came of it."""

    answer: Answer | None = None
    """The last one; older than `error` where there is one."""
    error: tuple[str, str] = ("", "")
    """Message and hint of the last try; empty: it worked, or none has ended yet."""
    asking: bool = False

    def note(self, view: NodeView, waiting: str) -> tuple[Line, ...]:
        """What a pane says instead of rows; empty when there is an answer."""
        if self.answer is not None:
            return ()
        if self.error[0]:
            return (*error_lines(*self.error), line(muted("R asks again.")))
        if view.snapshot is None:
            return waiting_lines(view)
        return (line(Span(f"◌ {waiting}", "accent")),)

    def stale(self, view: NodeView) -> str:
        """Why what is shown may no longer be so; empty when it is fresh."""
        if self.answer is not None and self.error[0]:
            return f"! stale: {fit(self.error[0], 60)}"
        return stale_words(view)


@dataclass(frozen=True)
class Offer:
    """A model that can be had, wherever it is listed."""

    ref: str
    """What to write to load it."""
    name: str
    bytes: int
    fit: FitMark
    here: bool = False


def stale_words(view: NodeView) -> str:
    """The age of what is shown, while the node does not answer; empty when it does."""
    words = link_words(view) if view.snapshot is not None else ()
    return "".join(span.text for span in words)


def empty_running(view: NodeView) -> tuple[Line, ...]:
    """What the pane of running models says without a row."""
    if view.snapshot is None:
        return waiting_lines(view)
    first = "No machine of the mesh runs a model." if view.snapshot.mesh else "No model runs."
    return (line(first), line(muted("Load one from the disk or the catalogue.")))


def empty_downloads(view: NodeView) -> tuple[Line, ...]:
    """What the pane of downloads says without a row."""
    if view.snapshot is None:
        return waiting_lines(view)
    keys = (muted("Press "), Span("d", "accent"), muted(" in the catalogue to fetch one."))
    return (line("Nothing is being downloaded."), line(*keys))


def catalog_offer(model: CatalogModel) -> Offer:
    """An entry of the catalogue."""
    return Offer(model.ref, model.id, model.bytes, model.fit, model.here)


def file_offer(model: HubFile) -> Offer:
    """A quantization of a repository."""
    return Offer(model.ref, model.name, model.bytes, model.fit, model.here)


def catalog_facts(model: CatalogModel, width: int) -> tuple[Line, ...]:
    """Below the catalogue: the chosen entry in three lines."""
    licence = one_line(model.licence, 40)
    facts = f"{parameters(model.parameters)} · {model.quant} · {size(model.bytes)} · {licence}"
    more = " · best for this machine" if model.pick else ""
    return (
        line(fit(model.about, width)),
        line(muted(fit(facts + more, width))),
        line(Span(fit(fit_figures(model.fit), width), fit_state(model.fit).tone)),
    )


def hub_facts(model: HubModel, width: int) -> tuple[Line, ...]:
    """Below the search: the chosen repository in three lines."""
    quants = ", ".join(one_line(quant, 16) or "unnamed" for quant in model.quants[:8])
    more = f" and {len(model.quants) - 8} more" if len(model.quants) > 8 else ""
    known = f"{one_line(model.architecture, 20)} · " if model.architecture else ""
    gated = " · gated: its terms must be accepted at the hub" if model.gated else ""
    facts = f"{known}{count(model.downloads, 'download')} a month · {count(model.likes, 'like')}{gated}"
    about = f"{one_line(model.quant, 16) or 'Its model'}: " if model.bytes > 0 else ""
    return (
        line(fit(f"Holds {quants}{more}", width)),
        line(muted(fit(facts, width))),
        line(Span(fit(about + fit_figures(model.fit), width), fit_state(model.fit).tone)),
    )


def offer_question(offer: Offer) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    """Title, text and answers of what is asked before a model is fetched or loaded."""
    title = fit(offer.name, 50)
    where = "It is on this machine's disk." if offer.here else f"It is a download of {size(offer.bytes)}."
    text = f"{where} {fit_sentence(offer.fit)}"
    cancel = ("cancel", "Cancel")
    match offer.fit.kind:
        case "split":
            text += " Split, each machine fetches only its layers; the planner says what that costs."
            first: tuple[tuple[str, str], ...] = (("plan", "Plan the split"), ("split", "Load it split"))
        case "other":
            text += " Load it there, or ask that machine through the mesh once it serves it."
            return title, text, (cancel, *(() if offer.here else (("any", "Download anyway"),)))
        case "nowhere":
            text += " A smaller quantization may fit."
            return title, text, (cancel, *(() if offer.here else (("any", "Download anyway"),)))
        case _ if offer.here:
            return title, text, (("load", "Load"), cancel)
        case _:
            return title, text, (("download", "Download"), ("load", "Download and load"), cancel)
    return title, text, (*first, cancel)


def delete_question(model: LibraryModel) -> tuple[str, str]:
    """Title and text of what is asked before a model is deleted."""
    again = "It can be downloaded again." if "/" in model.ref and not model.ref.startswith("/") else ""
    again = again or "It was put there by hand and cannot be fetched again."
    what = "What has arrived of it" if not model.complete and model.kind == "model" else "It"
    return f"Delete {fit(model.id, 40)}?", f"{what} frees {size(model.bytes_here)} of the disk. {again}"


def delete_obstacle(model: LibraryModel) -> str:
    """Why a model is not deleted, with what to do; empty: it may be."""
    name = fit(model.id, 60)
    if model.comes_with:
        return f"{name} is a part of meshllm's installation; it goes when meshllm is uninstalled."
    if model.loaded:
        return f"{name} is loaded here. Unload it first (u)."
    if model.used_by:
        return f"{name} is in use by process {model.used_by[0]}. End that first."
    return ""


def cancel_question(row: DownloadRow) -> tuple[str, str]:
    """Title and text of what is asked before a download is ended."""
    kept = "Pausing it (Enter) keeps that."
    text = f"The {size(row.bytes_done)} that arrived are removed. {kept}" if row.bytes_done else "It ends."
    return f"Cancel {fit(row.model or row.ref, 40)}?", text


_PATH_LEAST = 12
"""Cells of a path that still say something."""


def library_summary(folder: str, here: int, free: int, room: int) -> str:
    """In the border of the pane, which has `room` cells: how full the disk is, and where if some fits."""
    if not folder:
        return ""
    short = f"{size(here)} used, {size(free)} free"
    left = room - cells(f"{short} in ")
    return f"{short} in {fit(folder, min(left, 60))}" if left >= _PATH_LEAST else short


def matching(models: Sequence[CatalogModel], query: str) -> list[CatalogModel]:
    """Entries of the catalogue that hold all words of a search."""
    words = query.lower().split()
    return [
        model
        for model in models
        if all(word in f"{model.id} {model.repo} {model.about}".lower() for word in words)
    ]

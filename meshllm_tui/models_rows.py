"""Rows of the page of models: what runs, what comes, what is on the disk, what there is. No Textual here."""

from collections.abc import Iterator

from meshllm_core.api.schema_models import CatalogModel, HubModel, LibraryModel
from meshllm_core.state.download_events import DownloadRow, DownloadState
from meshllm_core.state.mesh_events import PeerModel, PeerRow
from meshllm_core.state.snapshot import ModelView, NodeSnapshot
from meshllm_core.state.split_events import HostedStage
from meshllm_tui.cleaning import cells, fit, one_line
from meshllm_tui.fit_words import fit_state
from meshllm_tui.present import MODEL_STATES, Line, Span, State, line, model_state, muted
from meshllm_tui.split_rows import STAGE_STATES
from meshllm_tui.units import bar, count, duration, number, parameters, percent, size, sizes

DOWNLOAD_STATES: dict[DownloadState, State] = {
    "waiting": State("◌", "waiting", "muted"),
    "downloading": State("↓", "downloading", "accent"),
    "stopping": State("◍", "stopping", "warn"),
    "paused": State("‖", "paused", "warn"),
    "failed": State("✗", "failed", "bad"),
    "done": State("●", "done", "ok"),
}
_LARGEST = 999_999
"""Figures come from other machines: none is shown longer."""
_SIZE = 9
_PARAMETERS = 6
_FIT = 15
_USED = 11
_NAME = 18
"""Cells of the columns; the name's are the least that it keeps when another column comes."""
_ONE_LINE = 46
"""Cells from which a model on the disk takes one line."""
ROWS_SHOWN = 400
"""Of models on other machines; each machine may tell of many."""

Row = tuple[str, tuple[Line, ...]]
"""Its key, and its lines."""


def running_rows(snapshot: NodeSnapshot, width: int) -> Iterator[Row]:
    """What runs where: this node's models, those of other members, stages computed here for others."""
    for model in snapshot.models:
        yield f"own:{model.id}", _own(model, width)
    shown = 0
    for peer in snapshot.peers:
        for offered in peer.models if peer.status in ("alive", "suspect") else ():
            if (shown := shown + 1) <= ROWS_SHOWN:
                yield f"peer:{peer.node}:{offered.id}", _offered(peer, offered, width)
    for stage in snapshot.hosted_stages:
        yield f"stage:{stage.run}", _hosted(stage, width)


def _head(name: str, state: State, width: int) -> Line:
    words = f"{state.glyph} {state.word}"
    short = fit(name, max(width - cells(words) - 2, 4)) or "–"
    return line(
        Span(short, "strong"), " " * max(width - cells(short) - cells(words), 1), Span(words, state.tone)
    )


def _own(model: ModelView, width: int) -> tuple[Line, ...]:
    where = "on this machine"
    if model.split is not None:
        where = f"over {count(len({row.node for row in model.split.stages}), 'machine')}"
    head = _head(model.id or model.ref, model_state(model), width)
    if model.status == "failed":
        return head, line(Span(fit(model.error or "no reason was given", width), "bad"))
    facts = [where]
    if model.status == "downloading":
        facts.append(sizes(model.bytes_done, model.bytes_total))
    elif model.status == "loading" and model.split is None:
        facts.append(f"{percent(model.load_fraction, 1)} read")
    elif model.status == "ready":
        facts += [_speed(model.decode_tokens_per_second), f"context {model.context:,}"]
        facts += [size(model.memory_measured)] if model.memory_measured else []
    return head, line(muted(_fitting(facts, width)))


def _offered(peer: PeerRow, model: PeerModel, width: int) -> tuple[Line, ...]:
    state = MODEL_STATES["ready" if model.status == "ready" else "loading"]
    if peer.status == "suspect":
        state = State("!", "no answer", "warn")
    facts = [f"on {fit(peer.name, 24) or 'another machine'}", _speed(model.decode_tokens_per_second)]
    facts += [f"context {_int(model.context)}"] if model.context > 0 else []
    return _head(model.id, state, width), line(muted(_fitting(facts, width)))


def _hosted(stage: HostedStage, width: int) -> tuple[Line, ...]:
    last = _int(stage.end - 1)
    facts = [
        f"layers {_int(stage.start)}–{last} here, for {fit(stage.coordinator, 24) or 'another machine'}",
        size(stage.memory_measured) if stage.memory_measured > 0 else "",
    ]
    head = _head(stage.model, STAGE_STATES[stage.state], width)
    return head, line(muted(_fitting([fact for fact in facts if fact], width)))


def download_rows(row: DownloadRow, width: int) -> tuple[Line, ...]:
    """A download: name and state, then how far it is, or why it stands."""
    head = _head(row.model or row.ref, DOWNLOAD_STATES[row.state], width)
    if row.state == "failed":
        lines = [head, line(Span(one_line(row.message, 300) or "no reason was given", "bad"))]
        return (*lines, line(one_line(row.hint, 200))) if row.hint else tuple(lines)
    if row.state == "done":
        return head, line(muted(_fitting([size(row.bytes_total), one_line(row.message, 200)], width)))
    if row.bytes_total <= 0:
        words = "after the one before it" if row.state == "waiting" else "asking the hub for its files"
        return head, line(muted(fit(words, width)))
    facts = [sizes(row.bytes_done, row.bytes_total)]
    if row.state == "downloading" and row.bytes_per_second >= 1:
        left = (row.bytes_total - row.bytes_done) / row.bytes_per_second
        facts += [f"{size(row.bytes_per_second)}/s", f"{duration(left)} left"]
    elif row.state == "downloading":
        facts.append("no bytes at the moment")
    share = percent(row.bytes_done, row.bytes_total)
    filled, empty = bar(row.bytes_done / row.bytes_total, min(max(width // 3, 6), 20))
    words = _fitting(facts, max(width - len(filled + empty) - 7, 4))
    return head, line(Span(filled, "accent"), muted(empty), Span(share.rjust(5)), muted(f"  {words}"))


def library_rows(model: LibraryModel, width: int) -> tuple[Line, ...]:
    """A model on the disk: where it fits, its name, its size, whether it is used; two lines where narrow."""
    state, mark = library_state(model), fit_state(model.fit)
    here = size(model.bytes_here)
    if width < _ONE_LINE:
        words = fit(state.word, width // 2 - 1)
        name = fit(model.id, max(width - cells(words) - 3, 8))
        gap = " " * max(width - 2 - cells(name) - cells(words), 1)
        head = line(Span(f"{mark.glyph} ", mark.tone), Span(name, "strong"), gap, Span(words, state.tone))
        return head, line(muted(f"  {_fitting([here, mark.word], width - 2)}"))
    room = width - 2 - _SIZE - 2 - _USED
    parts = [Span(f"{mark.glyph} ", mark.tone), Span(_pad(model.id, room), "strong")]
    return (line(*parts, here.rjust(_SIZE), "  ", Span(fit(state.word, _USED), state.tone)),)


def library_state(model: LibraryModel) -> State:
    """What a model on the disk is to this node now."""
    if model.loaded:
        return State("●", "loaded", "ok")
    if model.used_by:
        return State("●", "in use", "ok")
    if model.kind == "layers":
        return State("◐", "some layers", "plain")
    if not model.complete:
        return State("◌", f"{percent(model.bytes_here, model.bytes_total)} here", "warn")
    return State("○", "built in" if model.comes_with else "", "muted")


def catalog_row(model: CatalogModel, width: int) -> Line:
    """A model of the catalogue: mark, name, size, parameters where there is room, words."""
    note = "on disk" if model.here else "best here" if model.pick else ""
    return _offer_row(
        (fit_state(model.fit), note), model.id, parameters(model.parameters), size(model.bytes), width
    )


def hub_row(model: HubModel, width: int) -> Line:
    """A repository of the hub; its size is an estimate for the quantization that suits best."""
    about = f"~{size(model.bytes)}" if model.bytes > 0 else "–"
    known = parameters(model.parameters) if model.parameters > 0 else "–"
    note = "gated" if model.gated else model.quant
    return _offer_row((fit_state(model.fit), note), model.repo, known, about, width)


def _offer_row(mark: tuple[State, str], name: str, known: str, bytes_: str, width: int) -> Line:
    """The name has what is left; a note stands behind it where there is room."""
    state, note = mark
    room = width - 2 - _SIZE - 1
    words = [Span("  " + _pad(state.word, _FIT - 2), state.tone)] if room - _FIT >= _NAME else []
    room -= _FIT if words else 0
    counted = [muted(known.rjust(_PARAMETERS))] if room - _PARAMETERS >= 2 * _NAME else []
    room -= _PARAMETERS if counted else 0
    short = fit(name, max(room, 8))
    free = room - cells(short) - 2
    behind = f"  {note}" if note and cells(note) <= free else ""
    gap = " " * max(room - cells(short) - cells(behind), 0)
    return line(
        Span(f"{state.glyph} ", state.tone),
        Span(short, "strong"),
        muted(behind + gap),
        *counted,
        f" {bytes_.rjust(_SIZE)}",
        *words,
    )


def _speed(tokens_per_second: float) -> str:
    return f"{number(min(tokens_per_second, _LARGEST))} tok/s" if tokens_per_second > 0 else "idle"


def _fitting(facts: list[str], width: int) -> str:
    kept = [fact for fact in facts if fact]
    while len(kept) > 1 and cells(" · ".join(kept)) > width:
        kept.pop()
    return fit(" · ".join(kept), width)


def _pad(text: str, room: int) -> str:
    short = fit(text, room)
    return short + " " * (room - cells(short))


def _int(value: int) -> str:
    return f"{min(max(value, 0), _LARGEST):,}"

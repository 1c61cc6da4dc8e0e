"""Where a model fits, in words. No Textual here.

Every figure was told by a node, and names of machines by other machines: they are fitted and cleaned.
"""

from meshllm_core.api.schema_models import FitKind, FitMark
from meshllm_tui.cleaning import fit
from meshllm_tui.present import State
from meshllm_tui.units import size

_NAME = 24
"""Cells of a machine's name in a sentence."""
_NAMED = 4
"""Machines of a split that are named."""

FIT_STATES: dict[FitKind, State] = {
    "here": State("●", "fits here", "ok"),
    "other": State("○", "fits elsewhere", "accent"),
    "split": State("◐", "fits split", "accent"),
    "nowhere": State("✗", "too large", "muted"),
    "unknown": State("·", "size unknown", "muted"),
}
"""From best to worst; the word stands beside its glyph wherever there is room."""


def fit_state(mark: FitMark) -> State:
    """Glyph and few words: `fits here`, `fits tower`, `split over 3`."""
    state = FIT_STATES[mark.kind]
    if mark.kind == "other" and mark.machines:
        return State(state.glyph, f"fits {fit(mark.machines[0], 12)}", state.tone)
    if mark.kind == "split":
        return State(state.glyph, f"split over {len(mark.machines)}", state.tone)
    return state


def fit_figures(mark: FitMark) -> str:
    """What it needs beside what there is, for one line."""
    need, room = size(mark.need_bytes), size(mark.room_bytes)
    match mark.kind:
        case "here":
            return f"Needs {need}; {room} are free here"
        case "other":
            return f"Needs {need}; {room} are free on {_one(mark)}"
        case "split":
            return f"Needs {need}; {len(mark.machines)} machines have {room}: {_names(mark)}"
        case "nowhere":
            return f"Needs {need}; only {room} are free in all"
    return "Memory needed: known once its files are listed"


def fit_sentence(mark: FitMark) -> str:
    """The same with its figures."""
    need, room = size(mark.need_bytes), size(mark.room_bytes)
    match mark.kind:
        case "here":
            return f"It needs {need} of memory; {room} are free for models here."
        case "other":
            return f"It needs {need} of memory, more than is free here; {_one(mark)} has {room} free."
        case "split":
            return (
                f"It needs {need} of memory, more than any machine has; {_names(mark)} together have {room}."
            )
        case "nowhere":
            return f"It needs {need} of memory; all machines that are there have {room} free together."
    return "How much memory it needs is known once its file is listed."


def _one(mark: FitMark) -> str:
    return fit(mark.machines[0], _NAME) if mark.machines else "another machine"


def _names(mark: FitMark) -> str:
    names = [fit(name, _NAME) for name in mark.machines[1:]]
    if len(names) > _NAMED:
        return f"this machine and {len(names)} others"
    return ", ".join(["this machine", *names[:-1]]) + f" and {names[-1]}" if names else "this machine"

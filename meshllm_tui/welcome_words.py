"""The first-run wizard in words: its steps, what each offers, what came of it. No Textual here."""

from dataclasses import dataclass

from meshllm_core.api.schema_models import Catalog, CatalogModel
from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.cleaning import fit, one_line
from meshllm_tui.fit_words import fit_state
from meshllm_tui.present import Line, Span, line, muted
from meshllm_tui.units import size

GB = 1_000_000_000
"""`max_vram` counts in these."""
MODELS_SHOWN = 8
NAME_LIMIT = 63
KEEP, NONE = "keep", "none"

STEPS = ("name", "memory", "model", "mesh")
TEXTS: dict[str, tuple[Line, ...]] = {
    "name": (
        line(
            "meshllm makes one endpoint of your machines, for any app that speaks OpenAI's API. "
            "Four questions, and it is set up; all can be changed later under Settings."
        ),
        line(""),
        line(Span("What do the other machines call this one?", "strong")),
    ),
    "memory": (
        line(Span("How much memory may models take on this machine?", "strong")),
        line(muted("Yours and what this machine computes for others, together.")),
    ),
    "model": (
        line(Span("Which model should it serve?", "strong")),
        line(muted("From a catalogue, by what fits here; others under Models, or with l.")),
    ),
    "mesh": (
        line(Span("And the other machines?", "strong")),
        line(muted("A mesh is private: who has an invite gets in, nobody else.")),
    ),
}
MESHES: tuple[tuple[str, str, str], ...] = (
    ("alone", "Only this machine for now", "an invite can be made at any time: v"),
    ("invite", "Found a mesh", "make an invite for the next machine"),
    ("join", "Join a mesh", "with an invite that another machine made"),
)


@dataclass(frozen=True)
class Wishes:
    """What a person chose."""

    name: str
    memory: float
    """GB; 0: all that is free."""
    model: str
    """A reference, or KEEP."""
    mesh: str


@dataclass(frozen=True)
class Outcome:
    """What came of one wish."""

    ok: bool
    words: str
    hint: str = ""
    at_next_start: bool = False
    """The node has to be started again for it."""


def capacity(snapshot: NodeSnapshot) -> int:
    """Bytes that models could have at most: of the accelerators, else main memory."""
    accelerators = sum(device.memory_total for device in snapshot.devices if device.kind == "gpu")
    return accelerators or snapshot.memory_total


def memory_choices(snapshot: NodeSnapshot, now: float = 0.0) -> tuple[tuple[float, str, str], ...]:
    """GB, words, a remark; the first is how it is `now`, or what is usual."""
    total = capacity(snapshot)
    choices = [(0.0, "All that is free", "the rest is for other programs")]
    for part, words in ((0.75, "Three quarters"), (0.5, "Half"), (0.25, "A quarter")):
        share = round(total * part / GB, 1)
        if share >= 0.5:
            choices.append((share, words, f"{share:g} GB of {size(total)}"))
    if now:
        choices = [(now, "As it is set", f"{now:g} GB"), *(each for each in choices if each[0] != now)]
    return tuple(choices)


def memory_line(choice: tuple[float, str, str]) -> Line:
    """One row of the memory."""
    return line(Span(f"{choice[1]:<18}"), muted(choice[2]))


def model_choices(catalog: Catalog) -> tuple[CatalogModel, ...]:
    """What is worth offering now: what fits this machine, the best of it first."""
    fitting = [model for model in catalog.models if model.fit.kind == "here"]
    return tuple(sorted(fitting, key=lambda model: (not model.pick, not model.here)))[:MODELS_SHOWN]


def keep_line(snapshot: NodeSnapshot | None, width: int) -> Line:
    """The first row of the models: what there is already."""
    loaded = [model.id for model in snapshot.models] if snapshot is not None else []
    remark = "small, here already" if loaded else "l loads one later"
    what = (
        f"only {fit(loaded[0], min(width - len('only ') - len(remark) - 1, 30))}"
        if loaded
        else "none for now"
    )
    return line(Span(f"{what:<{_name_width(width)}} "), muted(remark))


def model_line(model: CatalogModel, memory: float, width: int) -> Line:
    """One row of the catalogue: name, download, mark."""
    if 0 < memory * GB < model.memory_bytes:
        mark = Span("! more than lent", "warn")
    elif model.pick:
        mark = Span("★ best that fits", "accent")
    else:
        mark = fit_state(model.fit).span
    where = "on this disk" if model.here else f"fetches {size(model.bytes)}"
    room = _name_width(width)
    return line(Span(f"{fit(model.id, room):<{room}} "), muted(f"{where:<18}"), mark)


def _name_width(width: int) -> int:
    return max(width - 36, 12)


def mesh_line(choice: tuple[str, str, str]) -> Line:
    """One row of the mesh."""
    return line(Span(f"{choice[1]:<28}"), muted(choice[2]))


def done_lines(outcomes: list[Outcome], wishes: Wishes) -> tuple[Line, ...]:
    """What was done, and what comes next."""
    lines: list[Line] = []
    for each in outcomes:
        mark = Span("✓ ", "ok") if each.ok else Span("✗ ", "bad")
        lines.append(line(mark, Span(one_line(each.words, 300), "plain" if each.ok else "bad")))
        if each.hint:
            lines.append(line("  ", one_line(each.hint, 300)))
    if not outcomes:
        lines.append(line("Nothing had to be changed."))
    if any(each.ok and each.at_next_start for each in outcomes):
        lines += [
            line(""),
            line(Span("! To start the node again: ", "warn"), "Ctrl+Q, “Stop the node”, then meshllm."),
        ]
    after = {"invite": "the invite", "join": "the box for an invite"}.get(wishes.mesh)
    if after is not None:
        lines += [line(""), line(Span("Enter", "accent"), muted(f" goes to {after}."))]
    else:
        lines += [line(""), line(Span("Enter", "accent"), muted(" closes this; "), Span("?", "accent"))]
        lines[-1] = (*lines[-1], muted(" shows every key."))
    return tuple(lines)

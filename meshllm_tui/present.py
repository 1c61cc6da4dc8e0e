"""What the screen says, made from a snapshot: lines of words and glyphs. No Textual here.

A state is always a word with a glyph; a tone only repeats it in colour. Every text that came over the
network passes through `cleaning`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from meshllm_core.state.events import NoticeLevel
from meshllm_core.state.snapshot import ModelStatus, ModelView, NodeSnapshot, NodeState, Notice
from meshllm_tui.cleaning import clean, one_line
from meshllm_tui.rtt_history import RttHistory
from meshllm_tui.units import duration

Tone = Literal["plain", "muted", "ok", "warn", "bad", "accent", "strong"]
Link = Literal["connecting", "live", "lost"]


@dataclass(frozen=True, slots=True)
class Span:
    """Some text in one tone."""

    text: str
    tone: Tone = "plain"


Line = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class State:
    """A state as it is shown."""

    glyph: str
    word: str
    tone: Tone

    @property
    def span(self) -> Span:
        """Glyph and word together."""
        return Span(f"{self.glyph} {self.word}", self.tone)


NODE_STATES: dict[NodeState, State] = {
    "starting": State("◌", "starting", "accent"),
    "standby": State("○", "standby", "muted"),
    "loading": State("◐", "loading", "accent"),
    "serving": State("●", "serving", "ok"),
    "stopping": State("◍", "stopping", "warn"),
}
MODEL_STATES: dict[ModelStatus, State] = {
    "requested": State("◌", "requested", "accent"),
    "downloading": State("↓", "downloading", "accent"),
    "loading": State("◐", "loading", "accent"),
    "ready": State("●", "ready", "ok"),
    "restarting": State("↻", "restarting", "warn"),
    "failed": State("✗", "failed", "bad"),
}
LEVELS: dict[NoticeLevel, State] = {
    "info": State("·", "info", "muted"),
    "warning": State("!", "warning", "warn"),
    "error": State("✗", "error", "bad"),
}


def model_state(model: ModelView) -> State:
    """How a model is shown. A split that was asked for is loading as soon as one of its stages does more."""
    begun = model.split is not None and any(row.state != "assigned" for row in model.split.stages)
    return MODEL_STATES["loading" if begun and model.status == "requested" else model.status]


@dataclass(frozen=True)
class NodeView:
    """All that the panes are drawn from."""

    snapshot: NodeSnapshot | None = None
    """None until the node has answered once."""
    link: Link = "connecting"
    silent_for: float = 0.0
    """Seconds since the node last answered, or since the dashboard began to ask."""
    trouble: str = ""
    """Why the last attempt failed."""
    started_by_us: bool = False
    """The node was started for this dashboard, so it may need a moment."""
    local: tuple[Notice, ...] = ()
    """Notices of the dashboard itself."""
    wall: float = 0.0
    """Now, seconds since the epoch."""
    rtts: RttHistory = field(default_factory=RttHistory, compare=False)
    """Of the members, as far as they were watched."""


def line(*parts: Span | str) -> Line:
    """A line from spans and plain text."""
    return tuple(Span(part) if isinstance(part, str) else part for part in parts)


def muted(text: str) -> Span:
    """Text of less weight."""
    return Span(text, "muted")


def link_words(view: NodeView) -> Line:
    """The state of the connection, with its age; empty when all is well."""
    if view.link == "live":
        return ()
    waited = duration(view.silent_for)
    if view.snapshot is not None:
        return line(Span(f"! stale: no answer for {waited}", "warn"))
    if view.started_by_us and view.silent_for < 20:
        return line(Span("◌ starting the node…", "accent"))
    if view.silent_for < 2:
        return line(Span("◌ looking for the node…", "accent"))
    return line(Span(f"! no node answers, asked for {waited}", "warn"))


def waiting_lines(view: NodeView) -> tuple[Line, ...]:
    """What a pane says while no node has ever answered: what is missing, why, and what to do."""
    lines = [link_words(view)]
    if view.silent_for >= 5:
        if view.trouble:
            lines.append(line(muted(one_line(view.trouble))))
        if view.started_by_us:
            lines.append(line(muted("Its log tells more: `meshllm logs`.")))
        else:
            lines.append(line(muted("Start one with `meshllm serve`; this screen finds it by itself.")))
    return tuple(lines)


def status_line(view: NodeView, mesh: Line = ()) -> Line:
    """The one line at the top: who, in what state, in which mesh, where."""
    name = Span("meshllm", "strong")
    if view.snapshot is None:
        return line(name, "  ", *link_words(view))
    shown = NODE_STATES[view.snapshot.node_state]
    parts = [name, Span("  "), Span(one_line(view.snapshot.name, 40) or "this node"), Span("  ")]
    parts.append(shown.span if view.link == "live" else link_words(view)[0])
    if view.snapshot.lending_paused:
        parts += [Span("  "), Span("‖ lending paused", "warn")]
    if mesh:
        parts += [Span("  "), *mesh]
    if view.snapshot.api_url:
        parts += [Span("  "), muted(endpoint(view.snapshot))]
    return tuple(parts)


def endpoint(snapshot: NodeSnapshot) -> str:
    """The base URL that an OpenAI client is given."""
    return one_line(snapshot.api_url, 200).rstrip("/") + "/v1"


def plain(lines: Iterable[Line]) -> str:
    """The lines without tones: what is copied, and what tests read."""
    return "\n".join("".join(span.text for span in each) for each in lines)


def error_lines(message: str, hint: str) -> tuple[Line, ...]:
    """An error that is kept on the screen: what failed, then what to do."""
    lines = [line(Span(clean(message, 2000), "bad"))]
    if hint:
        lines.append(line(Span(clean(hint, 1000))))
    return tuple(lines)


def chat_note(view: NodeView, model: str | None, talked: bool) -> tuple[Line, ...]:
    """What the chat says besides its turns: what is missing, or how to begin. `model` answers."""
    if view.snapshot is None:
        return waiting_lines(view)
    if view.link != "live":
        again = "If it has ended, leave with Ctrl+Q and run meshllm again."
        return (link_words(view), line(muted(f"Answers may fail until the node is back. {again}")))
    if talked:
        return ()
    if model is not None:
        return (
            line("Ask ", Span(one_line(model, 80), "strong"), " something."),
            line(muted("Press "), Span("i", "accent"), muted(" to write, Enter sends.")),
        )
    models = view.snapshot.models
    coming = next((each for each in models if each.status in ("requested", "downloading", "loading")), None)
    if coming is not None:
        return (
            line(Span(one_line(coming.id, 80), "strong"), f" is {MODEL_STATES[coming.status].word}."),
            line(muted("You can chat as soon as it is ready.")),
        )
    if any(each.status == "ready" for each in models):
        return (line("The loaded model does not chat. "), line(muted("Press l to load one that does.")))
    return (
        line("No model is ready to chat."),
        line(muted("Press "), Span("l", "accent"), muted(" to load one.")),
    )

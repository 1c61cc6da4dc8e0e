"""Words and glyphs for members, paths and publication. No Textual here.

A state is always a word with a glyph; see `present`.
"""

from dataclasses import dataclass
from typing import Literal

from meshllm_core.state.mesh_events import PeerRow, PeerStatus, Publication
from meshllm_core.state.snapshot import MeshView, NodeSnapshot
from meshllm_tui.cleaning import fit, one_line
from meshllm_tui.present import Line, Span, State, Tone, line, muted
from meshllm_tui.units import UNKNOWN, count, duration

SKEW_SECONDS = 5.0
"""A clock that is off by less is not worth a word."""
EXPIRES_SOON = 3 * 86_400.0
"""Seconds before the end of a membership from which it is named."""
NAME_LIMIT = 64

PEER_STATES: dict[PeerStatus, State] = {
    "alive": State("●", "alive", "ok"),
    "suspect": State("◐", "silent", "warn"),
    "down": State("✗", "down", "bad"),
    "left": State("○", "left", "muted"),
}
BLOCKED = State("⊘", "blocked", "bad")
OWN_STATE = State("◆", "this node", "accent")
PUBLICATIONS: dict[Publication, State] = {
    "private": State("◇", "private", "muted"),
    "publishing": State("◌", "publishing", "accent"),
    "public": State("◈", "public", "warn"),
    "publish_failed": State("!", "publish failed", "bad"),
}

BOTH_WAYS = "both ways"
OUTGOING_ONLY = "outgoing only: it reaches others, nobody reaches it"
NO_PATH = "no path from here"


def short_id(node: str) -> str:
    """The beginning of an id, enough to tell members apart."""
    return one_line(node, 200)[:8]


def name_of(row: PeerRow) -> str:
    """A member's name for a line of text; its id where it has none."""
    return one_line(row.name, NAME_LIMIT) or short_id(row.node)


def mesh_name(mesh: MeshView) -> str:
    """The mesh's name, or the beginning of its id."""
    return one_line(mesh.name, NAME_LIMIT) or short_id(mesh.mesh)


def member_name(snapshot: NodeSnapshot, node: str) -> str:
    """The name that belongs to an id, this node's own included; the short id of a stranger."""
    if node and node == snapshot.node:
        return "this node"
    found = next((row for row in snapshot.peers if row.node == node), None)
    return name_of(found) if found else short_id(node)


def rtt_words(row: PeerRow) -> str:
    """The round trip, and how it is known when this node did not measure it."""
    if row.rtt_source == "unknown" or row.status in ("down", "left"):
        return UNKNOWN
    shown = f"{row.rtt_ms:.1f} ms" if row.rtt_ms < 10 else f"{min(row.rtt_ms, 999_999):,.0f} ms"
    return shown if row.rtt_source == "direct" else f"{shown} reported"


@dataclass(frozen=True)
class LinkTag:
    """A link in a word or two."""

    words: str
    tone: Tone
    linked: bool


def link_tag(row: PeerRow, *, blocked: bool = False) -> LinkTag:
    """How near a member is and by which way: `1.2 ms tls`; what there is in place of a link."""
    if blocked:
        return LinkTag("blocked", "bad", False)
    if row.status in ("down", "left"):
        return LinkTag("gone" if row.status == "down" else "left", "muted", False)
    if row.status == "suspect":
        return LinkTag("silent", "warn", bool(row.path))
    rtt = "" if row.rtt_source == "unknown" else rtt_words(row).removesuffix(" reported")
    if not row.path:
        return LinkTag(f"{rtt} no link".strip(), "warn", False)
    return LinkTag(f"{rtt} {row.path}".strip(), "plain", True)


def best_speed(row: PeerRow) -> float:
    """Tokens per second of the member's fastest model, as it measured; 0: not known."""
    return max(
        (model.decode_tokens_per_second for model in row.models if model.status == "ready"), default=0.0
    )


def reach_words(row: PeerRow) -> str:
    """Who reaches whom, in words; empty while not known."""
    if row.reach == "no_path":
        through = one_line(row.seen_through, NAME_LIMIT)
        return f"{NO_PATH}, seen through {through}" if through else NO_PATH
    return {"both": BOTH_WAYS, "outgoing_only": OUTGOING_ONLY}.get(row.reach, "")


def own_reach(mesh: MeshView) -> tuple[str, Literal["ok", "warn", "muted"]]:
    """Whether others reach this node, in words."""
    udp, tcp = mesh.accepts_udp, mesh.accepts_tcp
    if udp is None and tcp is None:
        return "not measured yet", "muted"
    if udp and tcp is False:
        return "both ways by UDP; TCP does not get in, so transfers are slower", "warn"
    if udp or tcp:
        return "both ways", "ok"
    return "outgoing only: this node reaches others, nobody reaches it", "warn"


def version_words(row: PeerRow, own: str) -> str:
    """What there is to say when a member runs another version than this node; empty when the same."""
    theirs, ours = version_key(row.version), version_key(own)
    if not theirs or not ours or theirs == ours:
        return ""
    which = "older" if theirs < ours else "newer"
    return f"{which} version {one_line(row.version, 20)}"


def version_key(version: str) -> tuple[int, ...]:
    """The numbers at the beginning of a version; nothing for what has none."""
    numbers: list[int] = []
    for part in version[:40].split(".")[:4]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits or not digits.isascii():
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)


def skew_words(seconds: float) -> str:
    """A clock that is off, in words; empty when it is near enough."""
    if abs(seconds) <= SKEW_SECONDS:
        return ""
    return f"its clock is {duration(abs(seconds))} {'ahead' if seconds > 0 else 'behind'}"


def publication_span(mesh: MeshView) -> Span:
    """Whether the mesh is listed publicly, and why not when that failed."""
    state = PUBLICATIONS[mesh.publication]
    why = one_line(mesh.publication_detail, 120) if mesh.publication == "publish_failed" else ""
    return Span(state.span.text + (f": {why}" if why else ""), state.tone)


def mesh_status(snapshot: NodeSnapshot) -> Line:
    """The mesh's part of the status line; empty for a node by itself."""
    mesh = snapshot.mesh
    if mesh is None:
        return ()
    others = [row for row in snapshot.peers if row.status != "left"]
    alive = sum(1 for row in others if row.status == "alive")
    if mesh.waiting:
        words = Span("? " + count(len(mesh.waiting), "machine") + " waiting to be let in", "warn")
    elif not others:
        words = muted("no other member yet")
    elif alive == len(others) == 1:
        words = muted("1 other alive")
    elif alive:
        words = muted(f"{alive} of {len(others)} others alive")
    else:
        words = Span("! disconnected: no other member answers", "warn")
    return line(publication_span(mesh), "  ", Span(fit(mesh.name or mesh.mesh[:8], 24)), " ", words)


def waiting_words(mesh: MeshView) -> Line:
    """The machine that has waited longest to be let in, and how many more do; empty when none does."""
    if not mesh.waiting:
        return ()
    row, more = mesh.waiting[0], len(mesh.waiting) - 1
    name = fit(row.name, 24)
    words = f"? {name} ({short_id(row.node)}) asks to come in as {row.role}"
    others = f", and {more} more" if more else ""
    return line(Span(words, "warn"), muted(f"{others}: "), Span("a", "accent"), muted(" decides"))


def refusal_words(snapshot: NodeSnapshot) -> str:
    """What was refused from outside and how often; empty when nothing was."""
    counted = [each for each in snapshot.refusals if each.count > 0]
    counted.sort(key=lambda each: -each.count)
    shown = [f"{each.count:,} {one_line(each.kind, 40)}" for each in counted[:6]]
    if len(counted) > 6:
        shown.append(f"{sum(each.count for each in counted[6:]):,} other")
    return ", ".join(shown)

"""What becomes visible when the mesh is listed publicly, from what this node would list now. No Textual here.

The words follow discovery.listing.Listing field by field: a test compares them.
"""

from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.cleaning import one_line
from meshllm_tui.mesh_words import short_id
from meshllm_tui.present import Line, Span, line, muted
from meshllm_tui.units import count, sizes

_LABEL = 15
_NAMED = 16
"""Models that are named; how many more there are is said."""
_HERE = ("alive", "suspect")


def listing_lines(snapshot: NodeSnapshot) -> tuple[Line, ...]:
    """What anyone can see and do then, what is never told, and how it ends. Needs a snapshot with a mesh."""
    hosts = sum(row.role == "host" and row.status in _HERE for row in snapshot.peers)
    machines = f"{count(hosts + 1, 'machine')} that compute{'' if hosts else 's'}"
    return (
        line(Span("Anyone on the internet can then see, on public Nostr relays", "strong")),
        _fact("Name, region", "as they stand below"),
        _fact("This machine", f"id {short_id(snapshot.node)}…, {_addresses(snapshot)}"),
        _fact("The mesh", f"its id, {machines}, meshllm {one_line(snapshot.version, 20)}"),
        _fact("Accelerators", _accelerators(snapshot)),
        _fact("Models", _models(snapshot)),
        line(Span("Anyone can then join as a client, without an invite", "strong")),
        line(
            "  It has your machines compute its prompts. As a member it sees every machine's name, "
            "addresses, hardware, models and speed."
        ),
        line(Span("Never listed", "strong"), ": prompts, answers, invites, keys, other names."),
        line(muted("It can be taken back; the relays drop it within two minutes.")),
    )


def _fact(label: str, words: str) -> Line:
    return (muted(f"  {label.ljust(_LABEL)}"), Span(one_line(words, 2000)))


def _addresses(snapshot: NodeSnapshot) -> str:
    told = snapshot.mesh.addresses if snapshot.mesh else ()
    more = f", {len(told) - 2} more" if len(told) > 2 else ""
    shown = ", ".join(one_line(address, 60) for address in told[:2])
    return f"{shown}{more}" if told else "no address: it cannot be listed"


def _accelerators(snapshot: NodeSnapshot) -> str:
    """The memory of all machines' in one sum; this machine's part of it is known here."""
    own = [device for device in snapshot.devices if device.kind != "cpu"]
    free, total = sum(each.memory_free for each in own), sum(each.memory_total for each in own)
    return f"their memory in all, {sizes(free, total)} free here" if own else "their memory in all, none here"


def _models(snapshot: NodeSnapshot) -> str:
    names = [str(model.id) for model in snapshot.models if model.status == "ready"]
    for row in snapshot.peers:
        if row.status in _HERE and row.role == "host":
            names += [model.id for model in row.models if model.status == "ready"]
    unique = [one_line(name, 80) for name in dict.fromkeys(names)]
    more = f" and {len(unique) - _NAMED:,} more" if len(unique) > _NAMED else ""
    return ", ".join(unique[:_NAMED]) + more or "none is ready now; each that is, by name"

"""Which machines of the mesh could compute a stage, and of each other one why not and what to do."""

from collections.abc import Iterator

import msgspec

from meshllm_core.ids import NodeId
from meshllm_core.models.units import show_bytes
from meshllm_core.node.split_plan import Machine
from meshllm_core.state.mesh_events import PeerRow
from meshllm_core.state.pace import pace_of
from meshllm_core.state.pace_events import Pace, PaceSource
from meshllm_core.state.snapshot import NodeSnapshot, SplitView


class MachineRow(msgspec.Struct, frozen=True, kw_only=True):
    """A machine, this node or another member."""

    node: str
    """Its id, hexadecimal; empty for a node that never was in a mesh."""
    name: str
    """Unique among the machines."""
    this_node: bool = False
    eligible: bool = True
    reason: str
    """Why not; of an eligible one what else is to be known, or what it does in the plan."""
    hint: str = ""
    memory_free: int = 0
    memory_lent: int = 0
    """Bytes that a stage may take there."""
    weights_per_second: int = 0
    """Bytes of weights that a decode goes through in a second there; 0: not measured."""
    prefill_per_second: int = 0
    """Bytes of weights times tokens of a prompt, in a second there; 0: not measured."""
    speed: PaceSource = ""
    """Whether these were measured by answers or only calibrated; empty: neither."""
    rtt_ms: float | None = None
    """From this node; None: not known."""
    layer_start: int | None = None
    """Of its stage in the plan; None: it has none."""
    layer_end: int | None = None


def candidates(snapshot: NodeSnapshot) -> tuple[MachineRow, ...]:
    """Every machine that the node knows of: the other members by name, then this node."""
    found = [*(_member(row, snapshot.version) for row in snapshot.peers), _own(snapshot)]
    names = [each.name for each in found]
    return tuple(
        each
        if names.count(each.name) == 1
        else msgspec.structs.replace(each, name=f"{each.name} {each.node[:6]}")
        for each in found
    )


def machines(found: tuple[MachineRow, ...]) -> tuple[Machine, ...]:
    """The same in the terms of the node's own planning, this node last."""
    return tuple(
        Machine(
            NodeId(bytes.fromhex(each.node)) if each.node else NodeId(bytes(32)),
            each.name,
            each.memory_free,
            each.memory_lent,
            "" if each.eligible else each.reason,
            Pace(decode=each.weights_per_second, prefill=each.prefill_per_second, source=each.speed),
        )
        for each in found
    )


def links(found: tuple[MachineRow, ...]) -> dict[tuple[str, str], float]:
    """Round-trip times in ms by names, as far as this node knows them: those to itself."""
    own = found[-1].name
    return {(own, each.name): each.rtt_ms for each in found if each.rtt_ms is not None}


def _own(snapshot: NodeSnapshot) -> MachineRow:
    pace = pace_of(snapshot)
    client = snapshot.mesh is not None and snapshot.mesh.role == "client"
    plain = MachineRow(
        node=snapshot.node,
        name=snapshot.name,
        this_node=True,
        reason="it drives a split and computes the last stage",
        memory_free=snapshot.memory_free,
        memory_lent=snapshot.memory_lent,
        weights_per_second=pace.decode,
        prefill_per_second=pace.prefill,
        speed=pace.source,
    )
    why = ("it is a client: it computes for nobody", "Start it with `meshllm serve` to compute.")
    return left_out(plain, *why) if client else _with_memory(plain)


def _member(row: PeerRow, version: str) -> MachineRow:
    known = row.rtt_source != "unknown" and row.rtt_ms > 0
    plain = MachineRow(
        node=row.node,
        name=row.name,
        reason="it reaches others and nobody reaches it, which is enough"
        if row.reach == "outgoing_only"
        else "",
        memory_free=row.memory_free,
        memory_lent=row.memory_lent,
        weights_per_second=row.weights_per_second,
        prefill_per_second=row.prefill_per_second,
        speed="calibrated" if row.calibrated else "measured" if row.weights_per_second else "",
        rtt_ms=row.rtt_ms if known else None,
    )
    for why, hint in _obstacles(row, version):
        return left_out(plain, why, hint)
    return _with_memory(plain)


def _obstacles(row: PeerRow, version: str) -> Iterator[tuple[str, str]]:
    """(why not, what to do), the first thing to do first."""
    if row.status == "left":
        yield "it left the mesh", "Invite it again: `meshllm invite`."
    if row.status == "down":
        yield "it is down", "Start meshllm on it; it comes back by itself."
    if row.status == "suspect":
        yield (
            "it does not answer at the moment",
            "Ask again in ten seconds; if it stays so, look at its network.",
        )
    if row.role == "client":
        hint = (
            "To let it compute: `meshllm invite --role host` here, `meshllm join` and `meshllm serve` there."
        )
        yield "it is a client: it computes for nobody", hint
    if row.reach == "no_path" or not (row.address or row.path):
        hint = "Let its firewall take UDP in, or put both into one network; `meshllm members` says more."
        yield "there is no path to it from here", hint
    if row.version and version and row.version != version:
        older = "Bring both to the same release of meshllm."
        yield f"it runs meshllm {row.version}, this node {version}: their stages may differ", older


def _with_memory(plain: MachineRow) -> MachineRow:
    if plain.memory_lent:
        return plain
    where = "here" if plain.this_node else "there"
    free = f": {show_bytes(plain.memory_free)} are free" if plain.memory_free else ""
    return left_out(
        plain,
        f"it lends no memory{free}",
        f"Unload a model {where}, or raise --max-vram of its `meshllm serve`.",
    )


def with_stages(found: tuple[MachineRow, ...], split: SplitView) -> tuple[MachineRow, ...]:
    """The same once a split runs: who computes a stage of it takes part, whatever else it would take."""
    busy = {row.node for row in split.stages}
    return tuple(
        msgspec.structs.replace(each, eligible=True, hint="", reason=each.reason if each.this_node else "")
        if each.node in busy
        else each
        for each in found
    )


def left_out(row: MachineRow, why: str, hint: str) -> MachineRow:
    """The same machine, which takes no part."""
    return msgspec.structs.replace(row, eligible=False, reason=why, hint=hint)

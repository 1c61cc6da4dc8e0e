"""`--what-if`: other links, machines or verdicts than there are, to see what a plan would be then.

hop=10ms            every link one way             hop:a:b=25ms      one link one way
memory:a=24GB       a machine's free memory        layer:a=2ms       its time per layer and token
without=a           a machine takes no part        verdict:f16=exact what is known of a wire format
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import combinations

from meshllm_core.errors import ConfigError
from meshllm_core.planner import quantities as q
from meshllm_core.planner.network import Link, Network, PlanNode
from meshllm_core.planner.wire import VERDICTS
from meshllm_core.wire.codecs import dtype_named

KINDS = ("hop", "memory", "layer", "without", "verdict")
MAX_CHANGES = 1024


@dataclass(frozen=True)
class Supposed:
    """A network as it would be."""

    network: Network
    verdicts: dict[str, str] = field(default_factory=dict)
    """Wire format -> what would be known of it."""


def suppose(network: Network, changes: Sequence[str]) -> Supposed:
    """The network with changes such as `hop=10ms`; several may stand in one, parted by commas.

    Later ones win. Raises ConfigError naming the change.
    """
    parts = [part.strip() for change in changes for part in change.split(",") if part.strip()]
    if len(parts) > MAX_CHANGES:
        raise ConfigError(f"--what-if has {len(parts)} changes.", hint=f"At most {MAX_CHANGES} are read.")
    found = Supposed(network)
    for part in parts:
        found = _apply(found, part)
    return found


def _apply(found: Supposed, part: str) -> Supposed:
    key, equals, value = part.partition("=")
    kind, *names = key.split(":")
    what = f"--what-if {part[:60]}"
    wanted = {"hop": (0, 2), "memory": (1,), "layer": (1,), "without": (0,), "verdict": (1,)}
    if not equals or kind not in wanted or len(names) not in wanted[kind]:
        near = get_close_matches(kind, KINDS, 1)
        hint = f"Did you mean {near[0]}? " if near and near[0] != kind else ""
        raise ConfigError(
            f"{what}: there is no such change.",
            hint=f"{hint}Write hop=10ms, hop:A:B=10ms, memory:A=24GB, layer:A=2ms, without=A or "
            "verdict:f16=exact.",
        )
    if kind == "verdict":
        dtype_named(names[0])
        if value not in VERDICTS:
            raise ConfigError(
                f"{what}: {value!r} is no verdict.", hint=f"Write one of {', '.join(VERDICTS)}."
            )
        return replace(found, verdicts={**found.verdicts, names[0]: value})
    for name in (value,) if kind == "without" else names:
        _must_exist(found.network, name, what)
    return replace(found, network=_network(found.network, kind, names, value, what))


def _network(network: Network, kind: str, names: list[str], value: str, what: str) -> Network:
    def changed(name: str, change: dict[str, object]) -> Network:
        nodes = [replace(n, **change) if n.name == name else n for n in network.nodes]  # type: ignore[arg-type]
        return replace(network, nodes=tuple(nodes))

    match kind:
        case "memory":
            return changed(names[0], {"memory": q.size(value, what), "limit": None})
        case "layer":
            pace = {"layer_ms": q.milliseconds(value, what), "head_ms": None, "bytes_per_second": None}
            return changed(names[0], {**pace, "calibrated": False})
        case "without":
            return changed(value, {"excluded": "left out by --what-if"})
        case _:
            return _linked(network, names, 2 * q.milliseconds(value, what))


def _linked(network: Network, names: list[str], rtt: float) -> Network:
    pairs = [(names[0], names[1])] if names else list(combinations([node.name for node in network.nodes], 2))
    links = dict(network.links)
    for one, other in pairs:
        known = network.link(one, other)
        links.pop((other, one), None)
        links[one, other] = Link(rtt, known.bytes_per_second if known is not None else None)
    return replace(network, links=links)


def _must_exist(network: Network, name: str, what: str) -> PlanNode:
    names = [node.name for node in network.nodes]
    if name not in names:
        near = get_close_matches(name, names, 1)
        shown = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
        hint = f"Did you mean {near[0]}?" if near else f"There are: {shown}."
        raise ConfigError(f"{what}: there is no node {name[:60]!r}.", hint=hint)
    return network.nodes[names.index(name)]

"""Machines and links from a description: the file of `meshllm plan --nodes`, parsed already.

driver = "attic"                  # takes the requests; without it the first node
rtt = "12 ms"                     # of every pair that is not listed below; without it they are not known
hop_overhead = "1.5 ms"

[[nodes]]
name = "attic"
memory = "24 GB"                  # free for a model
limit = "20 GB"                   # what its owner lends at most
layer = "0.9 ms"                  # measured time of a layer per token, or
memory_bandwidth = "936 GB/s"     # how fast it reads weights
head = "2 ms"                     # measured time of the vocabulary's head
excluded = "is being updated"     # why it takes no part

[[links]]
between = ["attic", "desk"]
rtt = "20 ms"
bandwidth = "100 Mbit/s"
"""

from itertools import combinations

from meshllm_core.errors import ConfigError
from meshllm_core.planner import quantities as q
from meshllm_core.planner.network import HOP_OVERHEAD_MS, Link, Network, PlanNode

MAX_NODES = 256
MAX_LINKS = MAX_NODES * (MAX_NODES - 1) // 2

_TOP = ("driver", "rtt", "hop_overhead", "nodes", "links")
_NODE = ("name", "memory", "limit", "layer", "memory_bandwidth", "head", "excluded")
_LINK = ("between", "rtt", "bandwidth")


def read_cluster(document: object, where: str) -> Network:
    """The machines and links of a document; `where` names it in errors. Raises ConfigError."""
    top = q.table(document, where)
    q.known(top, _TOP, where)
    found = [_node(row, f"{where}: nodes[{number}]") for number, row in enumerate(_rows(top, "nodes", where))]
    if not found:
        raise ConfigError(f"{where} names no nodes.", hint="Add a [[nodes]] table for each machine.")
    names = [node.name for node in found]
    twice = next((name for name in names if names.count(name) > 1), "")
    if twice:
        raise ConfigError(
            f"{where}: two nodes are named {twice!r}.", hint="Give each its own name.", param="name"
        )
    driver = q.text(top["driver"], f"{where}: driver") if "driver" in top else names[0]
    if driver not in names:
        raise ConfigError(
            f"{where}: the driver {driver!r} is none of its nodes.", hint=f"There are: {_some(names)}."
        )
    links: dict[tuple[str, str], Link] = {}
    if "rtt" in top:
        usual = Link(q.milliseconds(top["rtt"], f"{where}: rtt"))
        links = dict.fromkeys(combinations(names, 2), usual)
    for number, row in enumerate(_rows(top, "links", where)):
        pair, link = _link(row, names, f"{where}: links[{number}]")
        links.pop((pair[1], pair[0]), None)
        links[pair] = link
    overhead = HOP_OVERHEAD_MS
    if "hop_overhead" in top:
        overhead = q.milliseconds(top["hop_overhead"], f"{where}: hop_overhead")
    return Network(tuple(found), links, driver, overhead)


def _rows(top: dict[str, object], name: str, where: str) -> list[object]:
    most = MAX_NODES if name == "nodes" else MAX_LINKS
    return q.rows(top.get(name, []), f"{where}: {name}", most)


def _node(row: object, where: str) -> PlanNode:
    given = q.table(row, where)
    q.known(given, _NODE, where)
    for needed in ("name", "memory"):
        if needed not in given:
            raise ConfigError(f"{where} has no {needed}.", hint=f"Add {needed}.", param=needed)
    if "layer" in given and "memory_bandwidth" in given:
        raise ConfigError(
            f"{where} has both layer and memory_bandwidth.",
            hint="Keep the one that was measured.",
            param="layer",
        )

    def time(name: str) -> float | None:
        return q.milliseconds(given[name], f"{where}: {name}") if name in given else None

    return PlanNode(
        name=q.text(given["name"], f"{where}: name"),
        memory=q.size(given["memory"], f"{where}: memory"),
        limit=q.size(given["limit"], f"{where}: limit") if "limit" in given else None,
        layer_ms=time("layer"),
        head_ms=time("head"),
        bytes_per_second=(
            q.rate(given["memory_bandwidth"], f"{where}: memory_bandwidth")
            if "memory_bandwidth" in given
            else None
        ),
        excluded=q.text(given["excluded"], f"{where}: excluded") if "excluded" in given else "",
    )


def _link(row: object, names: list[str], where: str) -> tuple[tuple[str, str], Link]:
    given = q.table(row, where)
    q.known(given, _LINK, where)
    pair = given.get("between")
    if not isinstance(pair, list) or len(pair) != 2 or pair[0] == pair[1]:
        raise ConfigError(
            f"{where}: between is not two names.", hint='Write between = ["a", "b"].', param="between"
        )
    for name in pair:
        if name not in names:
            raise ConfigError(
                f"{where}: there is no node {str(name)[:60]!r}.", hint=f"There are: {_some(names)}."
            )
    if "rtt" not in given:
        raise ConfigError(
            f"{where} has no rtt.", hint="Leave the link out if its latency is not known.", param="rtt"
        )
    bandwidth = q.rate(given["bandwidth"], f"{where}: bandwidth") if "bandwidth" in given else None
    return (str(pair[0]), str(pair[1])), Link(q.milliseconds(given["rtt"], f"{where}: rtt"), bandwidth)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more

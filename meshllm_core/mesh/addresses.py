"""Where each member may be reached: what it says itself, what worked, what was seen nearby."""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from meshllm_core.ids import NodeId
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Address

TRIED = 2 * limits.ADDRESSES
"""Addresses of one node that are kept."""


def _can_be_dialled(address: Address) -> bool:
    """Not a name, which would be looked up, and no address of many machines or of none."""
    try:
        host = ipaddress.ip_address(address.host.partition("%")[0])
    except ValueError:
        return False
    return not (host.is_multicast or host.is_unspecified or address.host == "255.255.255.255")


@dataclass
class AddressBook:
    """Addresses by node, the most promising first. Bounded: the node that was learned of first goes."""

    _known: dict[NodeId, list[Address]] = field(default_factory=dict)
    _worked: dict[NodeId, Address] = field(default_factory=dict)

    def learn(self, node: NodeId, addresses: Iterable[Address]) -> bool:
        """These are said to be addresses of `node`; the newest are tried first. Whether one was not known."""
        fresh = [address for address in dict.fromkeys(addresses) if _can_be_dialled(address)]
        fresh = fresh[: limits.ADDRESSES]
        if not fresh:
            return False
        known = self._known.pop(node, [])
        kept = [address for address in known if address not in fresh]
        self._known[node] = (fresh + kept)[:TRIED]
        while len(self._known) > limits.MEMBERS:
            self.forget(next(iter(self._known)))
        return not set(fresh) <= set(known)

    def worked(self, node: NodeId, address: Address) -> None:
        """A link to `node` was made here."""
        self._worked[node] = address
        self.learn(node, [address])

    def forget(self, node: NodeId) -> None:
        """Nothing is known of `node` any more."""
        self._known.pop(node, None)
        self._worked.pop(node, None)

    def candidates(self, node: NodeId) -> Sequence[Address]:
        """What to try, best first."""
        known = self._known.get(node, [])
        best = self._worked.get(node)
        return [best, *(address for address in known if address != best)] if best else list(known)

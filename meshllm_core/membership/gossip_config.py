"""The figures of gossip. Seconds and bytes unless said otherwise."""

from dataclasses import dataclass

from meshllm_core.wire import limits


@dataclass(frozen=True)
class GossipConfig:
    """Chosen so that a killed node is down within 8.5 s in a small mesh and 10 s in a large one."""

    ping: float = 2.0
    """A peer is pinged when nothing was heard from it for so long."""
    ping_again: float = 1.25
    """And again when it did not answer."""
    ping_young: float = 0.3
    """Over a new link its first pings follow each other so."""
    misses: int = 3
    """Pings without an answer before a peer is suspect …"""
    silence: float = 6.0
    """… and so long nothing else of it either."""
    exchange: float = 6.0
    """At the latest after this time both sides compare what they hold, however much else they say."""
    confirm: float = 1.0
    """So long others may contradict a suspicion …"""
    contradict: float = 2.0
    """… and a member itself the news of its death, where this node has no link to it."""
    helpers: int = 3
    """Others who are asked about a suspect."""
    fresh: float = 2.5
    """Who heard a node this recently vouches for it without asking it again."""
    help_wait: float = 0.8
    """So long a helper waits for the node that it was asked about."""
    clock_jump: float = 5.0
    """Between two calls: this node did not run."""
    refute: float = 2.0
    """Between two incarnations that this node takes to contradict its death."""
    isolation: float = 1.0
    """After the first contact of a node that was cut off, until hearsay counts again."""
    hearsay: float = 1800.0
    """A member that is known only through others is down after so long without an announcement."""
    mistaken: float = 600.0
    """So long a node that reported a death wrongly does not report that node on its own evidence …"""
    mistaken_within: float = 10.0
    """… if it was contradicted within this time."""
    duplicate: float = 60.0
    """Between two warnings that another process uses this node's key."""

    retry_first: float = 1.0
    retry_last: float = 15.0
    retry_open: float = 4.0
    """A member that is down is wanted for so long each time."""
    retry_long_after: float = 600.0
    """A member that is down for longer is tried …"""
    retry_long: float = 60.0
    """… only so often."""

    full_mesh: int = 33
    """Up to so many members, this node included, everybody links to everybody."""
    collect: float = 2.0
    """New figures of a member are asked for so long after they were offered, from one of those who did."""
    batch: float = 0.1
    """News waits so long for other news …"""
    batch_urgent: float = 0.03
    """… and that of a death or a departure: when many fall out at once, it is not told one by one."""
    differ: float = 3.0
    """Two nodes that hold different records for so long compare them bucket by bucket."""
    differ_large: float = 300.0
    """The same where only figures differ, in a mesh where such are always on their way."""
    reconcile_first: float = 5.0
    reconcile_last: float = 60.0
    """Between two comparisons with the same peer; it doubles when one brought nothing."""
    request: float = 5.0
    """A record that was asked for and did not come is asked for elsewhere."""
    refusal: float = 10.0
    """A record that was refused is not asked for again for so long."""

    rate: float = 128 * 1024
    """Bytes a second that a peer may make this node send, in the long run …"""
    burst: float = 2 * 1024 * 1024
    """… and at once: what a newcomer to a mesh of 1,000 has to learn."""
    unsolicited: float = 64.0
    """Records that a peer may send unasked at once; they come back at 8 a second."""
    strikes: float = 32.0
    """Forged records after which a peer is refused; they are forgiven at one a second."""
    records: int = limits.RECORDS
    parked: int = 512
    """Records that wait for what proves them."""
    undrained: int = 8192
    """Events that may wait; beyond that no record is taken: it will be offered again."""

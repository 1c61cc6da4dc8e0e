"""Which replica of a model would answer soonest. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meshllm_core.ids import NodeId
from meshllm_core.serve.peers import Replica

ANSWER_TOKENS = 256
"""Length of an answer that is not known yet: tokens."""
DECODE_RATE = 10.0
"""Tokens a second of a node that has not measured its own: a modest machine, so a known fast one wins."""
PROMPT_FACTOR = 8.0
"""A prompt is read so many times faster than an answer is written, where that was not measured."""
SHARING = 0.5
"""What each other running request adds to the time of one: lanes of a batch share the memory's bandwidth."""
SLACK_FACTOR, SLACK_SECONDS = 1.5, 0.25
"""A conversation stays where it was while that is not slower than this, seen from the best."""


@dataclass(frozen=True)
class Ranked:
    """A replica with its estimate."""

    replica: Replica
    expected_seconds: float
    """Until an answer of usual length is complete."""
    wait_seconds: float
    """Of that, until a lane is free."""
    why: str
    """For a person."""

    @property
    def free(self) -> bool:
        """Whether a lane is free now."""
        return self.wait_seconds == 0


def rank(
    replicas: Sequence[Replica],
    *,
    ours: Callable[[Replica], int] = lambda _: 0,
    prompt_tokens: int = 0,
    answer_tokens: int = ANSWER_TOKENS,
    last: NodeId | None = None,
) -> list[Ranked]:
    """The replicas, best first. `ours` tells how many requests this node has there, which the replica's own
    figures may not show yet; `last` is the node that has the conversation's beginning in its cache.
    """
    ranked = [_estimate(r, ours(r), 0 if r.node == last else prompt_tokens, answer_tokens) for r in replicas]
    ranked.sort(key=lambda r: (r.expected_seconds, r.replica.node))
    kept = next((r for r in ranked if r.replica.node == last), None)
    if kept and kept.expected_seconds <= ranked[0].expected_seconds * SLACK_FACTOR + SLACK_SECONDS:
        ranked.remove(kept)
        ranked.insert(0, kept)
    return ranked


def _estimate(replica: Replica, ours: int, prompt_tokens: int, answer_tokens: int) -> Ranked:
    offer = replica.offer
    lanes = max(1, offer.lanes)
    busy = max(offer.active + offer.queued, ours)
    rate = offer.decode_tokens_per_second or DECODE_RATE
    prompt_rate = offer.prompt_tokens_per_second or rate * PROMPT_FACTOR
    rate /= 1 + SHARING * min(busy, lanes - 1)
    one = prompt_tokens / prompt_rate + answer_tokens / rate
    wait = (busy - lanes + 1) * (answer_tokens / rate) / lanes if busy >= lanes else 0.0
    why = (
        f"{rate:.0f} tok/s, {min(busy, lanes)} of {lanes} lanes busy, "
        f"{max(0, busy - lanes)} waiting, {replica.round_trip * 1000:.0f} ms away"
    )
    # One round trip opens the channel, the answer takes another half each way.
    return Ranked(replica, 2 * replica.round_trip + wait + one, wait, why)

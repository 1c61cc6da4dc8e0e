"""When members that are down are dialled again: in turns, with back-off, spread over time."""

from collections.abc import Iterable
from dataclasses import dataclass

from meshllm_core.ids import NodeId
from meshllm_core.membership.desk import Desk


@dataclass(slots=True)
class _Retry:
    at: float
    step: float


class Retries:
    """Each member that is down is wanted for a few seconds at a time."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._retries: dict[NodeId, _Retry] = {}

    def remove(self, node: NodeId) -> None:
        """It is here, or it left."""
        self._retries.pop(node, None)

    def hurry(self) -> None:
        """This node slept: all are tried now."""
        for retry in self._retries.values():
            retry.at, retry.step = self._desk.now, self._desk.config.retry_first

    def open(self, gone: Iterable[tuple[NodeId, float]]) -> list[NodeId]:
        """Whose turn it is of `gone`, pairs of a node and when it went down; the longest waiting first."""
        config, now = self._desk.config, self._desk.now
        due: list[tuple[float, NodeId]] = []
        for node, since in gone:
            retry = self._retries.get(node)
            if retry is None:
                first = config.retry_first
                retry = self._retries[node] = _Retry(now + first * self._desk.random(), first)
            if now >= retry.at + config.retry_open:
                last = config.retry_long if now - since > config.retry_long_after else config.retry_last
                retry.step = min(last, retry.step * 2)
                retry.at = now + retry.step * (0.5 + 0.5 * self._desk.random())
            if retry.at <= now:
                due.append((retry.at, node))
        return [node for _, node in sorted(due)]

"""Which machines, in which order, with which layers: the cheapest chain of exactly k stages.

Dynamic programming over contiguous ranges: one column of costs (by the layer where a chain ends so far) for
each set of machines with the last of them. Choosing distinct machines is as hard as a travelling salesman's
tour, so the columns kept per step are bounded; what is dropped is compared with the result, and a result that
might be beaten says so. Costs are whole nanoseconds, so that equal means equal.
"""

from dataclasses import dataclass
from itertools import accumulate, islice, pairwise

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.int64]
NEVER = 1 << 60
"""A cost that no chain has."""
FEW = 7
"""Among so many machines nothing is ever dropped."""
ALL = 420
"""Columns of one step with FEW machines at most."""
KEPT = 192
"""Columns kept per step with more machines."""
EFFORT = 320
"""Columns computed for all steps of one search together, with more machines. Measured: twelve machines come
within 2 % of the best, thirty that need four to six stages within 1 %; ten stages may cost a fifth more."""


@dataclass(frozen=True)
class Problem:
    """Machines by index; costs in nanoseconds."""

    compute: Matrix
    """[node, end]: of the layers before `end`."""
    head: Matrix
    """[node]: added where the chain ends."""
    forward: Matrix
    """[node, next]: one hop between stages."""
    enter: Matrix
    """[node]: from the driver."""
    leave: Matrix
    """[node]: back to the driver."""
    fits: npt.NDArray[np.bool_]
    """[node, first, end]: whether it may hold that range."""
    room: Matrix
    """[node]: bytes."""
    need: Matrix
    """[first, end]: bytes."""

    @property
    def layers(self) -> int:
        """Layers to place."""
        return int(self.need.shape[0]) - 1

    @property
    def nodes(self) -> int:
        """Machines to choose from."""
        return int(self.fits.shape[0])


@dataclass(frozen=True)
class Chain:
    """An order of machines with the layers of each."""

    nodes: tuple[int, ...]
    cuts: tuple[int, ...]
    """One more than nodes: 0, …, layers."""
    cost: int
    """Nanoseconds per token."""
    fullest: float
    """Largest share of its room that a stage takes."""


@dataclass(frozen=True)
class Outcome:
    """What a search found."""

    chains: tuple[Chain, ...]
    """Cheapest first, of different sets of machines; empty if none was found."""
    proven: bool
    """Whether nothing better (or, without a chain, none at all) can exist."""


Label = tuple[int, int]
"""The set of machines as bits, and the last of them."""
Level = dict[Label, Matrix]
"""For chains of so many stages: the least cost by the layer where they end."""


class Search:
    """Answers for every number of stages of one problem."""

    def __init__(self, problem: Problem) -> None:
        self._p = problem
        self._layers = problem.layers
        spans = np.arange(problem.layers + 1, dtype=np.int16)
        lengths = problem.fits * np.maximum(spans[None, :] - spans[:, None], 0)
        self._capacity = [int(capacity) for capacity in lengths.max(axis=(1, 2))]
        pace = np.diff(problem.compute, axis=1).min(axis=1)
        self._pace = [int(each) for each in pace]
        self._usable = [node for node, capacity in enumerate(self._capacity) if capacity]
        self._roomiest = sorted(self._usable, key=lambda node: -self._capacity[node])
        self._fastest = sorted(self._usable, key=lambda node: self._pace[node])
        off = problem.forward + np.where(np.eye(problem.nodes, dtype=bool), NEVER, 0)
        self._least_hop = int(off.min()) if problem.nodes > 1 else 0
        self._least_exit = int((problem.leave + problem.head).min()) if problem.nodes else 0
        self._stages: dict[int, Matrix] = {}
        self._reaches: dict[Label, int] = {}
        self._rests: dict[Label, Matrix] = {}
        self._climbed: dict[int, tuple[list[Level], int]] = {}

    def _stage(self, node: int) -> Matrix:
        """[first, end]: what a stage costs on `node`, NEVER where it does not fit."""
        if node not in self._stages:
            compute = self._p.compute[node]
            self._stages[node] = np.where(self._p.fits[node], compute[None, :] - compute[:, None], NEVER)
        return self._stages[node]

    def fewest(self) -> int:
        """Fewer stages than this cannot hold the model; more than the machines if no number can."""
        left = self._layers
        for count, capacity in enumerate(sorted(self._capacity, reverse=True), 1):
            left -= capacity
            if left <= 0:
                return max(2, count)
        return self._p.nodes + 1

    def most(self) -> int:
        """No more stages than this are possible: each takes a machine and a layer."""
        return min(len(self._usable), self._layers)

    def best(self, stages: int, count: int = 1) -> Outcome:
        """The cheapest chains of exactly `stages` stages (at least 2), of up to `count` sets of machines."""
        if not 2 <= stages <= self.most():
            return Outcome((), True)
        if stages not in self._climbed:
            self._climbed[stages] = self._climb(stages)
        levels, dropped = self._climbed[stages]
        chains = self._finish(levels, count)
        cost = chains[0].cost if chains else NEVER
        return Outcome(chains, dropped >= cost)

    def _climb(self, stages: int) -> tuple[list[Level], int]:
        """All steps but the last, and the least cost of what was dropped on the way."""
        levels = [self._start(stages)]
        kept = ALL
        if len(self._usable) > FEW:
            kept = min(KEPT, max(12, EFFORT // max(1, stages - 2)))
        dropped = NEVER
        for placed in range(1, stages - 1):
            level, least = self._extend(levels[-1], stages - placed, kept)
            levels.append(level)
            dropped = min(dropped, least)
        return levels, dropped

    def _start(self, stages: int) -> Level:
        level = {}
        for node in self._usable:
            compute = self._p.compute[node]
            column = np.where(self._p.fits[node, 0], self._p.enter[node] + compute, NEVER)
            if self._keep_reachable(column, 1 << node, stages - 1):
                level[1 << node, node] = column
        return level

    def _keep_reachable(self, column: Matrix, used: int, left: int) -> bool:
        """Strikes ends from which `left` more stages cannot get to the last layer; whether any stays."""
        reach = self._reaches.get((used, left))
        if reach is None:
            free = (self._capacity[node] for node in self._roomiest if not used >> node & 1)
            reach = self._reaches[used, left] = sum(islice(free, left))
        column[: max(0, self._layers - reach)] = NEVER
        column[self._layers - left + 1 :] = NEVER
        return bool((column < NEVER).any())

    def _rest(self, used: int, left: int) -> Matrix:
        """[end]: what the layers from there on cost at least, on the fastest machines that are free."""
        found = self._rests.get((used, left))
        if found is None:
            free = [node for node in self._fastest if not used >> node & 1]
            capacity = list(accumulate((self._capacity[node] for node in free), initial=0))
            costs = list(accumulate((self._capacity[node] * self._pace[node] for node in free), initial=0))
            least = np.interp(np.arange(self._layers, -1, -1), capacity, costs).astype(np.int64)
            found = least + ((left - 1) * self._least_hop + self._least_exit)
            self._rests[used, left] = found
        return found

    def _extend(self, level: Level, left: int, kept: int) -> tuple[Level, int]:
        """One stage more, of `left` that are missing; and the least cost of what was dropped."""
        if not level:
            return {}, NEVER
        labels = list(level)
        columns = np.stack([level[label] for label in labels])
        bounds = np.stack([self._rest(used, left) for used, _ in labels])
        least = (columns + bounds).min(axis=1)[:, None] + self._p.forward[[last for _, last in labels]]
        # How far a chain gets with the next machine: the roomy ones must not be lost among the fast.
        far = self._layers - (columns[:, ::-1] < NEVER).argmax(axis=1)
        reach = far[:, None] + np.array(self._capacity)[None, :]
        for index, (used, _) in enumerate(labels):
            least[index, [node for node in range(self._p.nodes) if used >> node & 1]] = NEVER
        least[:, [node for node in range(self._p.nodes) if not self._capacity[node]]] = NEVER
        chosen, dropped = _choose(least.ravel(), reach.ravel(), kept)
        grown: Level = {}
        for index, node in zip(*np.unravel_index(chosen, least.shape), strict=True):
            used, last = labels[index]
            column = self._append(columns[index], last, int(node))
            label = used | 1 << int(node), int(node)
            grown[label] = np.minimum(grown[label], column) if label in grown else column
        dead = [
            label for label, column in grown.items() if not self._keep_reachable(column, label[0], left - 1)
        ]
        for label in dead:
            del grown[label]
        return grown, dropped

    def _append(self, column: Matrix, last: int, node: int) -> Matrix:
        """The column after one more stage on `node`."""
        ends = np.flatnonzero(column < NEVER)
        low, high = int(ends[0]), int(ends[-1]) + 1
        start = column[low:high] + self._p.forward[last, node]
        ways: Matrix = (start[:, None] + self._stage(node)[low:high]).min(axis=0)
        return np.minimum(ways, NEVER)

    def _finish(self, levels: list[Level], count: int) -> tuple[Chain, ...]:
        if not levels[-1]:
            return ()
        labels = list(levels[-1])
        columns = np.stack([levels[-1][label] for label in labels])
        lasts = [last for _, last in labels]
        totals = np.full((len(labels), self._p.nodes), NEVER, dtype=np.int64)
        for node in self._usable:
            compute = self._p.compute[node]
            final = np.where(self._p.fits[node, :, -1], compute[-1] - compute, NEVER)
            ways = (columns + final).min(axis=1) + self._p.forward[lasts, node]
            totals[:, node] = ways + (self._p.head[node] + self._p.leave[node])
        for index, (used, _) in enumerate(labels):
            totals[index, [node for node in range(self._p.nodes) if used >> node & 1]] = NEVER
        room = np.array([sum(self._p.room[node] for node in _members(used)) for used, _ in labels])
        spare = room[:, None] + self._p.room[None, :]
        # Among equal costs the roomiest machines first.
        ranking = np.lexsort((-spare.ravel(), totals.ravel()))
        chains: dict[frozenset[int], Chain] = {}
        for index, node in zip(*np.unravel_index(ranking, totals.shape), strict=True):
            if totals[index, node] >= NEVER or len(chains) == count:
                break
            members = frozenset((*_members(labels[index][0]), int(node)))
            if members not in chains:
                chains[members] = self.place(self._order(levels, labels[index], int(node)))
        return tuple(sorted(chains.values(), key=lambda chain: (chain.cost, chain.fullest, chain.nodes)))

    def _order(self, levels: list[Level], label: Label, node: int) -> tuple[int, ...]:
        """The machines in order, found by asking each step which of its predecessors gave the cost."""
        order = [node]
        end = self._layers
        for depth in range(len(levels) - 1, -1, -1):
            used, last = label
            column = levels[depth][label]
            end = int((column + self._stage(order[-1])[:, end]).argmin())
            order.append(last)
            if depth == 0:
                break
            before = used & ~(1 << last)
            final = self._stage(last)[:, end]
            costs = {
                other: int((origin + self._p.forward[other[1], last] + final).min())
                for other, origin in levels[depth - 1].items()
                if other[0] == before
            }
            label = min(costs, key=costs.__getitem__)
        return tuple(reversed(order))

    def cost(self, order: tuple[int, ...]) -> int:
        """What machines in this order cost with the cheapest cuts; NEVER where these do not fit."""
        compute = self._p.compute[order[0]]
        column = np.where(self._p.fits[order[0], 0], self._p.enter[order[0]] + compute, NEVER)
        for last, node in pairwise(order):
            if column.min() >= NEVER:
                return NEVER
            column = self._append(column, last, node)
        return min(NEVER, int(column[-1] + self._p.head[order[-1]] + self._p.leave[order[-1]]))

    def place(self, order: tuple[int, ...]) -> Chain:
        """The cheapest cuts for machines in this order; of equal ones those that fill the fullest least."""
        p = self._p
        cost = p.enter[order[0]] + self._stage(order[0])[0]
        fill = p.need[0] / p.room[order[0]]
        back = []
        for step, node in enumerate(order[1:], 1):
            # Every machine that follows takes a layer at least, which the ranges that fit see to.
            paths = cost[:, None] + p.forward[order[step - 1], node] + self._stage(node)
            least = paths.min(axis=0)
            filled = np.where(paths == least, np.maximum(fill[:, None], p.need / p.room[node]), np.inf)
            back.append(filled.argmin(axis=0))
            cost, fill = np.minimum(least, NEVER), filled.min(axis=0)
        cuts = [p.layers]
        for origins in reversed(back):
            cuts.append(int(origins[cuts[-1]]))
        total = int(cost[p.layers]) + int(p.head[order[-1]]) + int(p.leave[order[-1]])
        return Chain(order, (0, *reversed(cuts)), min(total, NEVER), float(fill[p.layers]))


def _members(used: int) -> list[int]:
    return [node for node in range(used.bit_length()) if used >> node & 1]


def _choose(least: Matrix, reach: Matrix, kept: int) -> tuple[Matrix, int]:
    """Indices to follow, three of four by cost, the others by reach; and the least cost dropped."""
    possible = np.flatnonzero(least < NEVER)
    if len(possible) <= kept:
        return possible, NEVER
    possible = possible[np.argsort(least[possible], kind="stable")]
    cheap, rest = possible[: kept * 3 // 4], possible[kept * 3 // 4 :]
    rest = rest[np.argsort(-reach[rest], kind="stable")]
    far, dropped = rest[: kept - len(cheap)], rest[kept - len(cheap) :]
    return np.concatenate([cheap, far]), int(least[dropped].min())

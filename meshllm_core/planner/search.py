"""Which machines, in which order, with which layers: the cheapest chain of exactly k stages.

Dynamic programming over contiguous ranges: one column of costs (by the layer where a chain ends so far) for
each set of machines with the last of them. Choosing distinct machines is as hard as a travelling salesman's
tour, so the columns kept per step are bounded; what is dropped is compared with the result, and a result that
might be beaten says so. Costs are whole nanoseconds, so that equal means equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from meshllm_core.planner.reach import NEVER, Matrix, Stages

__all__ = ["NEVER", "Chain", "Outcome", "Problem", "Search"]

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
    """Machines by index, 57 at most (a set of them is a number); costs in nanoseconds."""

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


@dataclass(frozen=True)
class Level:
    """Chains of so many stages, one row for each set of machines with the last of them."""

    used: Matrix
    """[row]: the set of machines as bits."""
    last: Matrix
    """[row]: the last of them."""
    columns: Matrix
    """[row, end]: the least cost by the layer where they end; NEVER where none does."""

    def rows(self, chosen: Matrix) -> "Level":
        """Some of them."""
        return Level(self.used[chosen], self.last[chosen], self.columns[chosen])


class Search:
    """Answers for every number of stages of one problem."""

    def __init__(self, problem: Problem) -> None:
        self._p = problem
        self._layers = problem.layers
        self._stages = Stages(problem.compute, problem.fits)
        self._capacity = self._stages.capacity
        self._pace: Matrix = np.diff(problem.compute, axis=1).min(axis=1)
        self._usable = np.flatnonzero(self._capacity)
        self._roomiest = self._usable[np.argsort(-self._capacity[self._usable], kind="stable")]
        self._fastest = self._usable[np.argsort(self._pace[self._usable], kind="stable")]
        off = problem.forward + np.where(np.eye(problem.nodes, dtype=bool), NEVER, 0)
        self._least_hop = int(off.min()) if problem.nodes > 1 else 0
        self._least_exit = int((problem.leave + problem.head).min()) if problem.nodes else 0
        self._prices: dict[int, Matrix] = {}
        self._climbed: dict[int, tuple[list[Level], int]] = {}

    def _price(self, node: int) -> Matrix:
        """[first, end]: what a stage costs on `node`, NEVER where it does not fit."""
        if node not in self._prices:
            compute = self._p.compute[node]
            self._prices[node] = np.where(self._p.fits[node], compute[None, :] - compute[:, None], NEVER)
        return self._prices[node]

    def fewest(self) -> int:
        """Fewer stages than this cannot hold the model; more than the machines if no number can."""
        left = self._layers
        for count, capacity in enumerate(np.sort(self._capacity)[::-1], 1):
            left -= int(capacity)
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
        first = self._usable
        begun = self._p.enter[first, None] + self._p.compute[first]
        columns = np.where(self._p.fits[first, 0], begun, NEVER)
        return self._reachable(Level(np.left_shift(1, first), first, columns), stages - 1)

    def _free(self, used: Matrix, order: Matrix) -> npt.NDArray[np.bool_]:
        """[row, place in `order`]: whether that machine is not used yet."""
        free: npt.NDArray[np.bool_] = used[:, None] >> order & 1 == 0
        return free

    def _reachable(self, level: Level, left: int) -> Level:
        """Without ends from which `left` more stages cannot get to the last layer, and rows without any."""
        free = self._free(level.used, self._roomiest)
        counted = free & (free.cumsum(axis=1) <= left)
        reach = (counted * self._capacity[self._roomiest]).sum(axis=1)
        ends = np.arange(self._layers + 1)
        lost = (ends < self._layers - reach[:, None]) | (ends > self._layers - left)
        level = Level(level.used, level.last, np.where(lost, NEVER, level.columns))
        return level.rows(np.flatnonzero((level.columns < NEVER).any(axis=1)))

    def _rests(self, used: Matrix, left: int) -> Matrix:
        """[row, end]: what the layers from there on cost at least, on the fastest machines that are free."""
        free = self._free(used, self._fastest)
        pace, capacity = self._pace[self._fastest], self._capacity[self._fastest] * free
        after = capacity.cumsum(axis=1)
        # The price of each further layer, by the places where it changes: where another machine begins, and
        # where the last one ends. Each takes a layer at least, so no two begin at the same place.
        paced = pace * free
        before = np.concatenate(
            [np.zeros((len(used), 1), np.int64), np.maximum.accumulate(paced, axis=1)], axis=1
        )
        changes = np.zeros((len(used), self._layers + 2), dtype=np.int64)
        rows, places = np.nonzero(free)
        at = np.minimum(after - capacity, self._layers + 1)
        changes[rows, at[rows, places]] = (paced - before[:, :-1])[rows, places]
        ends = after[:, -1]
        short = np.flatnonzero(ends <= self._layers)
        changes[short, ends[short]] = -before[short, -1]
        costs = np.zeros((len(used), self._layers + 1), dtype=np.int64)
        costs[:, 1:] = changes[:, : self._layers].cumsum(axis=1).cumsum(axis=1)
        return costs[:, ::-1] + ((left - 1) * self._least_hop + self._least_exit)

    def _extend(self, level: Level, left: int, kept: int) -> tuple[Level, int]:
        """One stage more, of `left` that are missing; and the least cost of what was dropped."""
        if not len(level.used):
            return level, NEVER
        machines = np.arange(self._p.nodes)
        least = (level.columns + self._rests(level.used, left)).min(axis=1)[:, None]
        least = least + self._p.forward[level.last]
        # How far a chain gets with the next machine: the roomy ones must not be lost among the fast.
        far = self._layers - (level.columns[:, ::-1] < NEVER).argmax(axis=1)
        reach = far[:, None] + self._capacity[None, :]
        least[~self._free(level.used, machines)] = NEVER
        least[:, self._capacity == 0] = NEVER
        chosen, dropped = _choose(least.ravel(), reach.ravel(), kept)
        before, node = np.unravel_index(chosen, least.shape)
        hop = self._p.forward[level.last[before], node]
        columns = self._stages.extend(level.columns[before] + hop[:, None], node)
        grown = _merged(Level(level.used[before] | np.left_shift(1, node), node, columns))
        return self._reachable(grown, left - 1), dropped

    def _finish(self, levels: list[Level], count: int) -> tuple[Chain, ...]:
        level, p = levels[-1], self._p
        if not len(level.used):
            return ()
        totals = np.full((len(level.used), p.nodes), NEVER, dtype=np.int64)
        for usable in self._usable:
            compute = p.compute[usable]
            final = np.where(p.fits[usable, :, -1], compute[-1] - compute, NEVER)
            ways = (level.columns + final).min(axis=1) + p.forward[level.last, usable]
            totals[:, usable] = ways + (p.head[usable] + p.leave[usable])
        free = self._free(level.used, np.arange(p.nodes))
        totals[~free] = NEVER
        spare = (~free * p.room).sum(axis=1)[:, None] + p.room[None, :]
        # Among equal costs the roomiest machines first.
        ranking = np.lexsort((-spare.ravel(), totals.ravel()))
        chains: dict[int, Chain] = {}
        for place in ranking:
            row, node = divmod(int(place), p.nodes)
            if totals[row, node] >= NEVER or len(chains) == count:
                break
            members = int(level.used[row]) | 1 << node
            if members not in chains:
                chains[members] = self.place(self._order(levels, row, node))
        return tuple(sorted(chains.values(), key=lambda chain: (chain.cost, chain.fullest, chain.nodes)))

    def _order(self, levels: list[Level], row: int, node: int) -> tuple[int, ...]:
        """The machines in order, found by asking each step which of its predecessors gave the cost."""
        order = [node]
        end = self._layers
        for depth in range(len(levels) - 1, -1, -1):
            level = levels[depth]
            end = int((level.columns[row] + self._price(order[-1])[:, end]).argmin())
            last = int(level.last[row])
            order.append(last)
            if depth == 0:
                break
            earlier = levels[depth - 1]
            others = np.flatnonzero(earlier.used == level.used[row] & ~(1 << last))
            ways = (earlier.columns[others] + self._price(last)[:, end]).min(axis=1)
            row = int(others[(ways + self._p.forward[earlier.last[others], last]).argmin()])
        return tuple(reversed(order))

    def costs(self, orders: Sequence[tuple[int, ...]]) -> list[int]:
        """What machines in each order cost with the cheapest cuts; NEVER where these do not fit.

        All orders are of the same length.
        """
        p, nodes = self._p, np.array(orders, dtype=np.int64)
        first, final = nodes[:, 0], nodes[:, -1]
        columns = np.where(p.fits[first, 0], p.enter[first, None] + p.compute[first], NEVER)
        for last, node in pairwise(nodes.T):
            columns = self._stages.extend(columns + p.forward[last, node][:, None], node)
        total = np.minimum(NEVER, columns[:, -1] + p.head[final] + p.leave[final])
        return [int(cost) for cost in total]

    def place(self, order: tuple[int, ...]) -> Chain:
        """The cheapest cuts for machines in this order; of equal ones those that fill the fullest least."""
        p = self._p
        cost = p.enter[order[0]] + self._price(order[0])[0]
        fill = p.need[0] / p.room[order[0]]
        back = []
        for step, node in enumerate(order[1:], 1):
            # Every machine that follows takes a layer at least, which the ranges that fit see to.
            ends = np.flatnonzero(cost < NEVER)
            rows = slice(ends[0], ends[-1] + 1) if len(ends) else slice(0, 1)
            paths = cost[rows, None] + p.forward[order[step - 1], node] + self._price(node)[rows]
            least = paths.min(axis=0)
            filled = np.full(paths.shape, np.inf)
            first, end = np.nonzero((paths == least) & (least < NEVER))
            shares = p.need[first + rows.start, end] / p.room[node]
            filled[first, end] = np.maximum(fill[first + rows.start], shares)
            back.append(filled.argmin(axis=0) + rows.start)
            cost, fill = np.minimum(least, NEVER), filled.min(axis=0)
        cuts = [p.layers]
        for origins in reversed(back):
            cuts.append(int(origins[cuts[-1]]))
        total = int(cost[p.layers]) + int(p.head[order[-1]]) + int(p.leave[order[-1]])
        return Chain(order, (0, *reversed(cuts)), min(total, NEVER), float(fill[p.layers]))


def _merged(level: Level) -> Level:
    """Rows of the same machines with the same last one become one, at the place of the first of them."""
    key = level.used << 6 | level.last
    _, at, group = np.unique(key, return_index=True, return_inverse=True)
    if len(at) == len(key):
        return level
    columns = np.full((len(at), level.columns.shape[1]), NEVER, dtype=np.int64)
    np.minimum.at(columns, group, level.columns)
    order = np.argsort(at)
    return Level(level.used[at[order]], level.last[at[order]], columns[order])


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

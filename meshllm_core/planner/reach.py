"""The cheapest way to add a stage to many chains at once.

What a stage costs is a difference of running sums, so the best place to begin it is the least value of a row
within a window: range minima, answered from the minima of all spans whose lengths are powers of two.
"""

from functools import cached_property

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.int64]
NEVER = 1 << 60
"""A cost that no chain has."""


class Stages:
    """Every stage that some machine may hold: machines by index, costs in nanoseconds."""

    def __init__(self, compute: Matrix, fits: npt.NDArray[np.bool_]) -> None:
        """`compute` [node, end]: of the layers before `end`. `fits` [node, first, end]: whether it may."""
        self._compute = compute
        begins = fits.transpose(0, 2, 1)
        starts = np.flatnonzero(begins.any(axis=(0, 1)))
        if not 0 < len(starts) < begins.shape[2] - 1:
            starts, self._begins = np.arange(begins.shape[2]), begins
        else:
            # Where a model can be cut in few places only: stages begin there and nowhere else.
            self._begins = begins[:, :, starts]
        self._starts = starts
        self._count = np.count_nonzero(self._begins, axis=2)
        self._low = self._begins.argmax(axis=2)

    @cached_property
    def capacity(self) -> Matrix:
        """[node]: most layers of a stage there."""
        ends = np.arange(self._count.shape[1])
        most: Matrix = np.where(self._count > 0, ends - self._starts[self._low], 0).max(axis=1)
        return most

    @cached_property
    def _windows(self) -> tuple[Matrix, Matrix, Matrix] | None:
        """[node, end]: which power of two covers the window of starts twice at most, and where both spans
        begin. None where the starts of some stage do not lie side by side."""
        rises = np.count_nonzero(self._begins[:, :, 1:] & ~self._begins[:, :, :-1], axis=2)
        if (rises + self._begins[:, :, 0]).max() > 1:
            return None
        # An empty window becomes the first cell of a row: `extend` strikes it out.
        span = np.frexp(np.maximum(self._count, 1))[1].astype(np.int64) - 1
        high = self._low + self._count - np.left_shift(1, span)
        return span, self._low, np.where(self._count > 0, high, 0)

    def extend(self, columns: Matrix, nodes: Matrix) -> Matrix:
        """[chain, end]: least costs with one stage more, on the machine `nodes[chain]`.

        `columns` [chain, end]: least costs so far, the hop to that machine included.
        """
        compute = self._compute[nodes]
        costs = np.where(columns < NEVER, columns - compute, NEVER)[:, self._starts]
        windows = self._windows
        if windows is None:
            found = self._one_by_one(costs, nodes)
        else:
            span, low, high = (part[nodes] for part in windows)
            least = _least_of_spans(costs, int(span.max(initial=0)))
            rows = np.arange(len(costs))[:, None]
            found = np.minimum(least[span, rows, low], least[span, rows, high])
            found[self._count[nodes] == 0] = NEVER
        return np.where(found < NEVER, found + compute, NEVER)

    def _one_by_one(self, costs: Matrix, nodes: Matrix) -> Matrix:
        found = np.empty((len(costs), self._compute.shape[1]), dtype=np.int64)
        for row, node in enumerate(nodes):
            found[row] = np.where(self._begins[node], costs[row], NEVER).min(axis=1)
        return found


def _least_of_spans(rows: Matrix, levels: int) -> Matrix:
    """[level, row, at]: the least of the 2**level values of a row from `at` on."""
    found = np.full((levels + 1, *rows.shape), NEVER, dtype=np.int64)
    found[0] = rows
    for level in range(1, levels + 1):
        half = 1 << (level - 1)
        wide = rows.shape[1] - 2 * half + 1
        np.minimum(
            found[level - 1, :, :wide], found[level - 1, :, half : half + wide], out=found[level, :, :wide]
        )
    return found

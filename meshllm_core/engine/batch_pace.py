"""Whether decodes that wait are better computed together or one after another. Pure: times are given.

A stage that reads its weights from memory computes four rows for little more than one: together is better.
One that is busy computing takes nearly four times as long, and the next stage stands still meanwhile: then
each is passed on as soon as it is done. Which it is, the steps themselves tell.
"""

WORTH = 0.75
"""Of the time of a row alone, what a row among others may take at most for them to be computed together."""
SMOOTHING = 0.2
TRY_AGAIN = 64
"""After so many decisions for one at a time, together is measured again: other programs may have ended."""
ROWS_KNOWN = 256
"""Sizes of batches that are told apart."""


class BatchPace:
    """Learns what a row costs, by how many are computed at once."""

    def __init__(self) -> None:
        self._row_seconds: dict[int, float] = {}
        self._since_tried = 0

    def note(self, rows: int, seconds: float) -> None:
        """A step of decodes took so long."""
        rows = min(rows, ROWS_KNOWN)
        each, known = seconds / rows, self._row_seconds.get(rows)
        self._row_seconds[rows] = each if known is None else known + SMOOTHING * (each - known)

    def pays(self, rows: int) -> bool:
        """Whether so many rows cost less together, as far as is known."""
        alone, among = self._row_seconds.get(1), self._row_seconds.get(min(rows, ROWS_KNOWN))
        return rows < 2 or alone is None or among is None or among <= WORTH * alone

    def together(self, rows: int) -> bool:
        """Whether so many rows that wait should be one step now; from time to time only to measure it."""
        if self.pays(rows):
            return True
        self._since_tried += 1
        if self._since_tried >= TRY_AGAIN:
            self._since_tried = 0
            return True
        return False

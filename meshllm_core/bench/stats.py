"""Medians and spread of repeated measurements."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Summary:
    """Repeated values of one figure."""

    median: float
    lowest: float
    highest: float
    count: int

    @property
    def spread(self) -> float:
        """(highest - lowest) / median: 0.1 says that all values lie within a tenth."""
        return (self.highest - self.lowest) / self.median if self.median else 0.0

    def as_json(self) -> dict[str, float]:
        """The same as a JSON object, rounded to what such figures can bear."""
        return {
            "median": round(self.median, 3),
            "min": round(self.lowest, 3),
            "max": round(self.highest, 3),
            "spread": round(self.spread, 4),
            "n": self.count,
        }


def summarize(values: Iterable[float | None]) -> Summary | None:
    """Summary of the values that are there; None when there are none."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Summary(median(known), min(known), max(known), len(known))

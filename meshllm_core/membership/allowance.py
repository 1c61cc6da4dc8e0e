"""A token bucket: how much somebody may cost us."""


class Allowance:
    """`burst` at once, `rate` a second in the long run."""

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self.rate = rate
        self.burst = burst
        self._level = burst
        self._at = now

    def left(self, now: float) -> float:
        """What may be taken now; negative after more was taken than there was."""
        self._level = min(self.burst, self._level + max(0.0, now - self._at) * self.rate)
        self._at = now
        return self._level

    def take(self, amount: float, now: float) -> bool:
        """Takes all of `amount` if anything is left, so that what is larger than `burst` passes too."""
        if self.left(now) <= 0:
            return False
        self._level -= amount
        return True

    def ready(self, now: float) -> float:
        """When something can be taken again; `now` if it can already."""
        left = self.left(now)
        return now if left > 0 else now + (1.0 - left) / self.rate

"""Speed of the last second, for the dashboard. Pure: time is given."""

SAMPLE_SECONDS = 1.0


class Meter:
    """Counts tokens; says once a second how fast they came."""

    def __init__(self) -> None:
        self._since = 0.0
        self._prompt = 0
        self._prompt_seconds = 0.0
        self._decoded = 0
        self._said_busy = False

    def note(self, *, prompt_tokens: int, decoded: int, seconds: float) -> None:
        """A step was computed."""
        self._decoded += decoded
        if prompt_tokens:
            self._prompt += prompt_tokens
            self._prompt_seconds += seconds

    def due(self, now: float, *, active: int, queued: int) -> tuple[float, float] | None:
        """(decode tok/s, prompt tok/s of the steps that had any), when a second has passed."""
        if not self._since:
            self._since = now
            return None
        elapsed = now - self._since
        if elapsed < SAMPLE_SECONDS and (active or queued):
            return None
        self._said_busy = True
        prompt = self._prompt / self._prompt_seconds if self._prompt_seconds else 0.0
        figures = (self._decoded / elapsed if elapsed > 0 else 0.0, prompt)
        self._since, self._prompt, self._prompt_seconds, self._decoded = now, 0, 0.0, 0
        return figures

    def went_idle(self) -> bool:
        """True once after activity."""
        said, self._said_busy = self._said_busy, False
        self._since = 0.0
        return said

"""What to measure, with every size checked before anything is sent."""

from dataclasses import dataclass

from meshllm_core.errors import ConfigError

MAX_CLIENTS = 64
MAX_RUNS = 100
MAX_PROMPT_TOKENS = 131_072
MAX_TOKENS = 32_768
MAX_REQUESTS = 5_000
"""Bound on all requests of one benchmark together."""


@dataclass(frozen=True)
class Plan:
    """One benchmark. Raises ConfigError for values out of range."""

    clients: tuple[int, ...] = (1, 4)
    """Levels of concurrency, each measured by itself."""
    prompt_tokens: int = 512
    max_tokens: int = 128
    runs: int = 5
    warmup: int = 1
    """Unmeasured runs per level, before the measured ones."""
    reuse: bool = False
    """All prompts share their beginning, so that prefix reuse is measured."""
    tail_tokens: int = 32
    """With `reuse`: about so many tokens at the end differ from prompt to prompt."""
    quiet: float | None = None
    """Share of the processor (0 to 1) that other programs may take during a run. Each run waits until they do
    not, and a round of runs in which they did is done again. None: whatever they take.
    """
    settle: float = 1.0
    """Seconds that others must have been quiet before a run begins."""
    time_limit: float = 1_800.0
    """Seconds after which no further run is begun."""
    seed: int = 1

    def __post_init__(self) -> None:
        _check(len(self.clients) > 0, "--clients", "names no level")
        for level in self.clients:
            _within(level, 1, MAX_CLIENTS, "--clients")
        _within(self.prompt_tokens, 1, MAX_PROMPT_TOKENS, "--prompt-tokens")
        _within(self.max_tokens, 1, MAX_TOKENS, "--max-tokens")
        _within(self.runs, 1, MAX_RUNS, "--runs")
        _within(self.warmup, 0, MAX_RUNS, "--warmup")
        _check(self.quiet is None or 0.0 < self.quiet <= 1.0, "--quiet", "is not between 0 and 1")
        _check(1.0 <= self.time_limit <= 86_400.0, "--time-limit", "is not between 1 s and a day")
        _check(
            not self.reuse or self.prompt_tokens >= 2 * self.tail_tokens,
            "--reuse",
            f"needs prompts of at least {2 * self.tail_tokens} tokens",
        )
        _check(
            self.requests <= MAX_REQUESTS,
            "--runs",
            f"makes {self.requests} requests; {MAX_REQUESTS} are the most",
        )

    @property
    def requests(self) -> int:
        """Requests per server, without those that find the prompt's length."""
        return sum(self.clients) * (self.runs + self.warmup)


def parse_clients(text: str) -> tuple[int, ...]:
    """`1,4` as (1, 4). Raises ConfigError."""
    try:
        levels = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(
            f"--clients {text!r} is not a list of numbers.", hint="Write it as 1,4.", param="--clients"
        ) from error
    return tuple(dict.fromkeys(levels))


def _within(value: int, lowest: int, highest: int, param: str) -> None:
    _check(lowest <= value <= highest, param, f"is {value}, not between {lowest} and {highest}")


def _check(good: bool, param: str, words: str) -> None:
    if not good:
        raise ConfigError(f"{param} {words}.", param=param)

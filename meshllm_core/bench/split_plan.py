"""What the split benchmark measures, with every size checked before anything is started."""

from dataclasses import dataclass
from pathlib import Path

from meshllm_core.bench.plan import Plan
from meshllm_core.errors import ConfigError

PARTS = ("decode", "clients", "prefill", "quic", "memory")
MAX_DELAY_MS = 1000.0
MAX_DELAYS = 16


@dataclass(frozen=True)
class SplitPlan:
    """One benchmark of splits. Raises ConfigError for values out of range."""

    model: Path
    parts: tuple[str, ...] = PARTS
    delays: tuple[float, ...] = (0.0, 5.0, 10.0, 40.0)
    """Milliseconds one way."""
    busy_delay: float = 10.0
    """Where several clients and long prompts are measured."""
    rpc_delays: tuple[float, ...] = (0.0, 10.0)
    clients: int = 4
    runs: int = 5
    prompt_tokens: int = 32
    max_tokens: int = 64
    prefill_tokens: int = 2048
    prefill_runs: int = 3
    chunk: int = 128
    """Tokens of a lock-step chunk: the size of the chunks that a split sends."""
    threads: int = 1
    wire_dtype: str = "f32"
    rpc_programs: Path | None = None
    quiet: float | None = None
    time_limit: float = 3600.0
    """Seconds after which no run is begun."""

    def __post_init__(self) -> None:
        unknown = [part for part in self.parts if part not in PARTS]
        if unknown or not self.parts:
            raise ConfigError(
                f"--only: there is no part {', '.join(unknown)}.", hint=f"Known: {', '.join(PARTS)}."
            )
        if not 0 < len(self.delays) <= MAX_DELAYS:
            raise ConfigError(f"--delays names {len(self.delays)} delays; 1 to {MAX_DELAYS} are possible.")
        for delay in self.delays:
            if not 0 <= delay <= MAX_DELAY_MS:
                raise ConfigError(f"--delays: {delay:g} ms is not between 0 and {MAX_DELAY_MS:g}.")
        if self.prefill_tokens < 2 * self.chunk:
            raise ConfigError(f"--prefill-tokens is less than {2 * self.chunk}: nothing could overlap.")
        self.measurement(1, self.time_limit)

    def measurement(self, seed: int, time_limit: float) -> Plan:
        """How sides are asked. Another seed: prompts of an earlier one may still be in a cache."""
        return Plan(
            (1, self.clients),
            self.prompt_tokens,
            self.max_tokens,
            self.runs,
            quiet=self.quiet,
            time_limit=time_limit,
            seed=seed,
        )

    @property
    def context(self) -> int:
        """Tokens that one lane must hold."""
        return max(self.prefill_tokens + self.chunk, self.prompt_tokens + self.max_tokens + 64)


def parse_delays(text: str) -> tuple[float, ...]:
    """`0,5,10` as milliseconds. Raises ConfigError."""
    try:
        return tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError as error:
        raise ConfigError(f"--delays {text!r} is no list of numbers.", hint="Write it as 0,5,10.") from error


def parse_parts(text: str) -> tuple[str, ...]:
    """`decode,quic` in the order in which they are measured; the plan refuses unknown ones."""
    given = tuple(part.strip() for part in text.split(",") if part.strip())
    return tuple(sorted(dict.fromkeys(given), key=lambda part: (*PARTS, part).index(part)))

"""What the dashboard costs: first paint, key to paint, idle CPU, a day's memory, and a hostile member.

    python -m benchmarks.dashboard [--only paint keys idle day hostile] [--raw FILE]

Everything runs as people run it: the real program on a pseudo-terminal of 120 by 40, over real sockets to a
node that is made up (`dashboard_node`: the real management API and event store), or to a real one. Only the
day runs without a terminal, with a clock of its own. A page that is opened for the first time in a session is
made then, which takes longer; that is told by itself and is not part of the p95. Each figure stands beside
its bound; ends with 7 where one is not kept. On a machine that others use: `chrt -r 5 python -m …`.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import psutil

from benchmarks.dashboard_app import Notes
from benchmarks.dashboard_keys import FIRST, Pressed, latencies, quantile, walk
from benchmarks.dashboard_terminal import on_terminal
from benchmarks.programs import MESHLLM, end_orderly_on_sigterm, free_ports, program, say
from meshllm_core.bench.machine import machine_facts
from meshllm_core.errors import EngineError, EngineTimeout, ExitCode, MeshError, describe

PAINT_S, KEY_MS, IDLE_PERCENT, DRIFT_PERCENT = 0.5, 50.0, 2.0, 5.0
IDLE_SECONDS = 30.0
MEMBERS = 200
_FRAME, _COMPLETE = "1 Mesh", ("Endpoint",)
_RESULTS = Path(__file__).parent / "results"
_ALONE = (
    "import sys; from pathlib import Path; from meshllm_tui.launch import run; "
    "sys.exit(run(console_url='http://127.0.0.1:9', api_url='', token_file=Path(sys.argv[1]), "
    "started_by_us=False))"
)


@dataclass
class Report:
    """The figures, each beside its bound."""

    raw: list[dict[str, object]] = field(default_factory=list)
    short: bool = False

    def add(self, what: str, value: float, bound: float | None, unit: str, **rows: object) -> None:
        """One figure; without a bound it is only told."""
        kept = bound is None or value <= bound
        self.short = self.short or not kept
        verdict = "" if bound is None else f"  ≤ {bound:g} {unit}  {'ok' if kept else 'SHORT'}"
        sys.stdout.write(f"{what:58} {value:8.2f} {unit}{verdict}\n")
        sys.stdout.flush()
        self.raw.append({"figure": what, "value": round(value, 4), "bound": bound, "unit": unit, **rows})


@dataclass(frozen=True)
class Home:
    """A folder and two ports for one node."""

    folder: Path
    port: int
    console: int

    @property
    def environ(self) -> dict[str, str]:
        """What makes a program use them."""
        return {
            "MESHLLM_HOME": str(self.folder),
            "MESHLLM_PORT": str(self.port),
            "MESHLLM_CONSOLE_PORT": str(self.console),
            "MESHLLM_CALIBRATE": "false",
        }

    @property
    def places(self) -> tuple[str, str, str]:
        """Management API, endpoint, token."""
        local = "http://127.0.0.1"
        return (
            f"{local}:{self.console}",
            f"{local}:{self.port}",
            str(self.folder / "data" / "management-token"),
        )


@contextlib.contextmanager
def home() -> Iterator[Home]:
    """A new one, in which the questions of a first run were answered."""
    with tempfile.TemporaryDirectory(prefix="meshllm-bench-") as folder:
        (Path(folder) / "data").mkdir()
        (Path(folder) / "data" / "welcome-seen").touch()
        yield Home(Path(folder), *free_ports(2))


@contextlib.contextmanager
def node(at: Home, *arguments: str, real: bool = False) -> Iterator[None]:
    """A node at those ports: made up, or a real one without a model."""
    ports = ["--port", str(at.port), "--console", str(at.console)]
    made_up = [sys.executable, "-m", "benchmarks.dashboard_node", *ports, *arguments]
    command = [*MESHLLM, "serve", "--headless", "--client", *ports] if real else made_up
    record, log = at.folder / "data" / "node.json", at.folder / "log"
    with program(command, log, at.environ) as pid:
        deadline = time.monotonic() + 60
        while not any(at.folder.rglob(record.name)):
            if time.monotonic() > deadline or not psutil.pid_exists(pid):
                raise EngineTimeout(f"The node did not start: {log.read_text(errors='replace')[-500:]}")
            time.sleep(0.05)
        time.sleep(1.0)
        yield


def main() -> int:
    """Measures, prints, says whether the bounds are kept."""
    options = _parser().parse_args()
    end_orderly_on_sigterm()
    # People have compiled modules; a developer's shell may forbid to keep them.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    report = Report()
    parts: dict[str, Callable[[Report, argparse.Namespace], None]] = {
        "paint": paint, "keys": keys, "idle": idle, "day": day, "hostile": hostile,
    }  # fmt: skip
    try:
        for name in options.only or parts:
            parts[name](report, options)
    except MeshError as error:
        say(describe(error))
        return int(error.exit_code)
    raw = options.raw or _RESULTS / f"{time.strftime('%Y-%m-%dT%H%MZ', time.gmtime())}-dashboard.jsonl"
    raw.parent.mkdir(parents=True, exist_ok=True)
    with raw.open("a", encoding="utf-8") as file:
        for row in ({"kind": "setup", "machine": machine_facts()}, *report.raw):
            file.write(json.dumps(row, separators=(",", ":")) + "\n")
    say(f"raw figures: {raw}")
    return int(ExitCode.CHECK if report.short else ExitCode.OK)


# First paint ----------------------------------------------------------------------------------


def paint(report: Report, options: argparse.Namespace) -> None:
    """From starting the program until its first frame, and until the node's facts stand in it."""
    with home() as at:
        alone = [sys.executable, "-c", _ALONE, at.places[2]]
        # Compiles what was changed since the last start.
        _first(alone, at.environ)
        _paints(report, "with no node", [_first(alone, at.environ) for _ in range(options.runs)])
    starting = []
    for _ in range(options.runs):
        with home() as at:
            try:
                starting.append(_first(MESHLLM, at.environ, *_COMPLETE))
            finally:
                subprocess.run(
                    [*MESHLLM, "stop"],
                    env={**os.environ, **at.environ},
                    capture_output=True,
                    timeout=60,
                    check=False,
                )
    _paints(report, "with a starting node", starting)
    with home() as at, node(at, "--members", str(MEMBERS), "--changes", "20", "--each", "10"):
        many = [_first(MESHLLM, at.environ, *_COMPLETE) for _ in range(options.runs)]
    _paints(report, f"with {MEMBERS} members", many)


def _paints(report: Report, what: str, runs: Sequence[tuple[float, float]]) -> None:
    first, complete = [one for one, _ in runs], [two for _, two in runs if two]
    report.add(f"first paint {what}, median of {len(runs)}", median(first), PAINT_S, "s", runs=first)
    if complete:
        report.add(f"  until the node's facts stand in it {what}", median(complete), None, "s", runs=complete)


def _first(command: Sequence[str], environ: Mapping[str, str], *complete: str) -> tuple[float, float]:
    with on_terminal(command, environ) as terminal:
        first = terminal.when(_FRAME)
        return first, terminal.when(*complete) if complete else 0.0


# Key to paint ---------------------------------------------------------------------------------


def keys(report: Report, _: argparse.Namespace) -> None:
    """On every page, with members that change 20 times a second: ten of them each time, then all of them."""
    for each, bound in ((10, KEY_MS), (MEMBERS, KEY_MS)):
        words = f"{MEMBERS} members, {each} change 20 times a second"
        with home() as at, node(at, "--members", str(MEMBERS), "--changes", "20", "--each", str(each)):
            _told(report, words, *_walked(at), bound=bound)


def _walked(at: Home) -> tuple[Notes, list[Pressed]]:
    notes = at.folder / f"notes-{time.monotonic_ns()}.json"
    command = [sys.executable, "-m", "benchmarks.dashboard_app", *at.places, str(notes)]
    with on_terminal(command, at.environ) as terminal:
        terminal.when(*_COMPLETE)
        time.sleep(1.5)
        pressed = walk(terminal)
        deadline = time.monotonic() + 10
        while not notes.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
    if not notes.exists():
        raise EngineError(
            "The dashboard left no notes.", hint="It may have ended by a fault; run it by hand."
        )
    time.sleep(0.2)
    return msgspec.json.decode(notes.read_bytes(), type=Notes), pressed


def _told(report: Report, words: str, notes: Notes, pressed: Sequence[Pressed], *, bound: float) -> None:
    painted = latencies(notes, pressed)
    first = [ms for each, ms in painted.found if each.name == FIRST]
    all_ms = [ms for each, ms in painted.found if each.name != FIRST]
    report.add(
        f"key to paint, p95 of {len(all_ms)}: {words}", quantile(all_ms, 0.95), bound, "ms",
        keys=[(each.page, each.name, round(ms, 2)) for each, ms in painted.found],
    )  # fmt: skip
    report.add("  median", median(all_ms), None, "ms")
    report.add("  longest", max(all_ms), None, "ms")
    report.add(
        f"  first opening of a page, median of {len(first)}", median(first) if first else 0.0, None, "ms"
    )
    for page in dict.fromkeys(each.page for each, _ in painted.found):
        some = [ms for each, ms in painted.found if each.page == page and each.name != FIRST]
        report.add(f"  p95 on the page {page}, of {len(some)}", quantile(some, 0.95), None, "ms")
    report.add(
        "  keys that changed nothing",
        len(painted.lost),
        None,
        "keys",
        lost=[f"{k.page} {k.name}" for k in painted.lost],
    )
    report.add("  event loop late, p95", quantile(notes.lags, 0.95) * 1000, None, "ms")
    report.add("  event loop late, longest", max(notes.lags) * 1000, None, "ms")


# Idle -----------------------------------------------------------------------------------------


def idle(report: Report, _: argparse.Namespace) -> None:
    """The share of a processor that the dashboard takes while nothing happens and nobody types."""
    with home() as at, node(at, real=True):
        report.add("idle CPU over 30 s, a real node at rest", _share(at), IDLE_PERCENT, "%")
    with home() as at, node(at, "--members", str(MEMBERS)):
        report.add(f"idle CPU over 30 s, {MEMBERS} quiet members", _share(at), IDLE_PERCENT, "%")


def _share(at: Home) -> float:
    with on_terminal(MESHLLM, at.environ) as terminal:
        terminal.when(*_COMPLETE)
        time.sleep(4.0)
        process = psutil.Process(terminal.process.pid)
        before, began = process.cpu_times(), time.monotonic()
        time.sleep(IDLE_SECONDS)
        after = process.cpu_times()
        used = after.user + after.system - before.user - before.system
        return 100 * used / (time.monotonic() - began)


# A day, and a hostile member ------------------------------------------------------------------


def day(report: Report, options: argparse.Namespace) -> None:
    """24 hours of events, as fast as they are taken: what the process holds after 2 hours and after 24."""
    told = _json(["benchmarks.dashboard_day", "--hours", str(options.hours)])
    by_hour: dict[str, list[float]] = told["hours"]
    events, seconds = int(told["events"]), float(told["seconds"])
    report.add(f"{options.hours} hours of {events:,} events took", seconds, None, "s", frames=told["frames"])
    for name, words in (("traced", "Python's memory"), ("resident", "resident memory")):
        values = by_hour[name]
        base, last = values[2], values[-1]
        drift = 100 * abs(last - base) / base
        report.add(
            f"{words}: {base / 2**20:.1f} MiB after 2 h, {last / 2**20:.1f} MiB at the end",
            drift,
            DRIFT_PERCENT,
            "%",
            hours=values,
        )


def hostile(report: Report, _: argparse.Namespace) -> None:
    """Names to hurt: as a node passes them on, then beyond what any node would."""
    with (
        home() as at,
        node(
            at,
            "--members",
            str(MEMBERS),
            "--changes",
            "20",
            "--each",
            "10",
            "--names",
            "4096",
            "--length",
            "1000000",
        ),
    ):
        _told(report, "4,096 members, names of 1 MB, controls, markup", *_walked(at), bound=KEY_MS)
    told = _json(["benchmarks.dashboard_day", "--hostile", "200000"])
    values, first = told["keys_ms"], told["first_ms"]
    words = f"key to paint, p95 of {len(values)}: 200,000 names from one node"
    report.add(words, quantile(values, 0.95), KEY_MS, "ms", keys=values, first=first)
    report.add("  longest of the first lap, which makes table and pages", max(first), None, "ms")
    sys.stdout.write(f"  the cap in words: {told['words']}\n")


def _json(arguments: Sequence[str]) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineError(f"{arguments[0]} failed: {done.stderr[-600:]}", hint="Run it by hand.")
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.dashboard", description="What the dashboard costs."
    )
    parser.add_argument("--only", nargs="+", choices=["paint", "keys", "idle", "day", "hostile"])
    parser.add_argument("--runs", type=int, default=7, help="starts of each kind (default 7)")
    parser.add_argument("--hours", type=int, default=24, help="hours of events (default 24)")
    parser.add_argument("--raw", type=Path, help="file for the single figures")
    return parser


if __name__ == "__main__":
    sys.exit(main())

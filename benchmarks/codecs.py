"""Speed of the wire codecs: encode and decode, one row and many.

    python -m benchmarks.codecs [--width 8192 --rows 512 --rounds 15 --quiet 0.15 --raw FILE]

Ends with 7 when a bound is not kept: encode + decode of one row in 0.1 ms, of many rows at 1 GB of f32 in a
second. The table shows medians; the raw file holds every round.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.programs import say, wait_for_quiet
from meshllm_core.exit_codes import ExitCode
from meshllm_core.wire.codecs import Dtype, codec_for
from meshllm_core.wire.codecs.base import Rows

MOST_MS_PER_ROW = 0.1
LEAST_GB_PER_SECOND = 1.0
_RESULTS = Path(__file__).parent / "results"
_SECONDS_PER_ROUND = 0.05


@dataclass(frozen=True)
class Figure:
    """What one codec took for one number of rows."""

    dtype: Dtype
    rows: int
    frame_bytes: int
    encode_ms: float
    decode_ms: float
    gb_per_second: float
    """Bytes of the rows as f32, over encode + decode."""
    kept: bool


def main() -> int:
    """Measures, prints, writes the raw data."""
    options = _parser().parse_args()
    wait_for_quiet(options.quiet)
    raw = options.raw or _RESULTS / f"{time.strftime('%Y-%m-%d', time.gmtime())}-codecs.jsonl"
    raw.parent.mkdir(parents=True, exist_ok=True)
    figures = []
    with raw.open("a", encoding="utf-8") as file:
        setup = {"kind": "setup", "width": options.width, "rounds": options.rounds, "numpy": np.__version__}
        file.write(json.dumps(setup) + "\n")
        for count in (1, options.rows):
            for dtype in Dtype:
                rounds = _measure(dtype, _hidden(count, options.width), options.rounds)
                for encode, decode in rounds:
                    line = {"codec": dtype.label, "rows": count, "encode_s": encode, "decode_s": decode}
                    file.write(json.dumps(line) + "\n")
                figures.append(_figure(dtype, count, options.width, rounds))
    _print(figures, options.width)
    say(f"raw data: {raw}")
    return int(ExitCode.OK if all(figure.kept for figure in figures) else ExitCode.CHECK)


def _hidden(count: int, width: int) -> Rows:
    """Rows like a hidden state's: values around 1, a few channels thousands of times larger."""
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((count, width)).astype(np.float32)
    rows[:, :: max(1, width // 3)] *= 5000
    return rows


def _measure(dtype: Dtype, rows: Rows, rounds: int) -> list[tuple[float, float]]:
    """Seconds of one encode and of one decode, per round; a round repeats until a clock can time it."""
    codec = codec_for(dtype, rows.shape[1])
    data, back = np.empty(codec.size(len(rows)), np.uint8), np.empty_like(rows)
    started = time.perf_counter()
    codec.encode(rows, data)
    codec.decode(data, back)
    repeats = max(1, int(_SECONDS_PER_ROUND / (time.perf_counter() - started)))
    measured = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeats):
            codec.encode(rows, data)
        middle = time.perf_counter()
        for _ in range(repeats):
            codec.decode(data, back)
        measured.append(((middle - start) / repeats, (time.perf_counter() - middle) / repeats))
    return measured


def _figure(dtype: Dtype, count: int, width: int, rounds: list[tuple[float, float]]) -> Figure:
    encode, decode = median(e for e, _ in rounds), median(d for _, d in rounds)
    speed = count * width * 4 / (encode + decode) / 1e9
    kept = (encode + decode) * 1e3 <= MOST_MS_PER_ROW if count == 1 else speed >= LEAST_GB_PER_SECOND
    size = codec_for(dtype, width).size(count)
    return Figure(dtype, count, size, encode * 1e3, decode * 1e3, speed, kept)


def _print(figures: list[Figure], width: int) -> None:
    lines = [f"{'codec':6}{'rows':>6}{'bytes/row':>11}{'encode ms':>11}{'decode ms':>11}{'GB/s':>8}  bound"]
    for one in figures:
        bound = f"{MOST_MS_PER_ROW} ms" if one.rows == 1 else f"{LEAST_GB_PER_SECOND} GB/s"
        lines.append(
            f"{one.dtype.label:6}{one.rows:>6}{one.frame_bytes // one.rows:>11}{one.encode_ms:>11.3f}"
            f"{one.decode_ms:>11.3f}{one.gb_per_second:>8.2f}  {bound} {'kept' if one.kept else 'NOT KEPT'}"
        )
    sys.stdout.write(f"rows of {width} values\n" + "\n".join(lines) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.codecs", description=__doc__.split("\n")[0])
    parser.add_argument("--width", type=int, default=8192, help="values per row (default 8192)")
    parser.add_argument("--rows", type=int, default=512, help="rows of the large frame (default 512)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds (default 15)")
    parser.add_argument(
        "--quiet", type=float, default=0.15, help="start when less of the CPU is in use (default 0.15)"
    )
    parser.add_argument("--raw", type=Path, help="file for the raw data (default: in benchmarks/results)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

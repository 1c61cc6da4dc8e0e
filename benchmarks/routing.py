"""What a routed request costs: the node that holds the model, and the one that passes requests on to it.

    python -m benchmarks.routing --local http://B:9337/v1 --routed http://A:9337/v1 --model M [--runs 20 …]

`--local` is the /v1 of the node that computes, `--routed` that of another node of its mesh, which does not
have the model. Requests alternate between the two, each side first in every other run, one at a time: the
same prompts, greedy, `ignore_eos`. Every prompt is new to both, so no cache helps either. Ends with 7 when a
bound is not kept: the first token at most 10 ms later, decoding at least 0.97 as fast (medians).
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any, TextIO

from benchmarks.programs import say
from meshllm_core.bench.completion import Route, Target, Timing, complete, find_target
from meshllm_core.bench.endpoint import parse_endpoint
from meshllm_core.bench.machine import machine_facts
from meshllm_core.bench.prompts import PromptMaker
from meshllm_core.errors import ExitCode, MeshError, describe

LATER_MS, DECODE_RATIO = 10.0, 0.97
_RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Pair:
    """One run: requests of the same length to both nodes, directly after each other."""

    run: int
    words: int
    local: Timing
    routed: Timing


def main() -> int:
    """Measures, prints both tables, says whether the bounds are kept."""
    options = _parser().parse_args()
    raw = options.raw or _RESULTS / f"{time.strftime('%Y-%m-%dT%H%MZ', time.gmtime())}-routing.jsonl"
    raw.parent.mkdir(parents=True, exist_ok=True)
    try:
        with raw.open("a", encoding="utf-8") as file:
            pairs = asyncio.run(_measure(options, file))
    except MeshError as error:
        say(describe(error))
        return int(error.exit_code)
    sys.stdout.write("\n".join(report(pairs)) + "\n")
    say(f"raw figures: {raw}")
    return 0 if kept(pairs) else int(ExitCode.CHECK)


async def _measure(options: argparse.Namespace, file: TextIO) -> list[Pair]:
    local, routed = [
        await find_target(
            parse_endpoint(url, api_key=options.api_key, param=param), options.model, route=options.route
        )
        for param, url in (("--local", options.local), ("--routed", options.routed))
    ]
    conditions = {"kind": "setup", "model": options.model, "tokens": options.tokens, "words": options.words}
    _write(file, {**conditions, "route": options.route, "machine": machine_facts()})
    # The first requests open connections and fetch the model's facts; they do not count.
    for target in (local, routed):
        await complete(target, PromptMaker(8, options.seed).make("warm", target.endpoint.url), 4)
    pairs = []
    for run in range(options.runs):
        for words in options.words:
            pair = await _pair(local, routed, PromptMaker(words, options.seed), options.tokens, run)
            for name, timing in (("local", pair.local), ("routed", pair.routed)):
                _write(file, {"kind": "request", "server": name, "run": run, "words": words, **_json(timing)})
            pairs.append(pair)
    return pairs


async def _pair(local: Target, routed: Target, prompts: PromptMaker, tokens: int, run: int) -> Pair:
    timings: dict[str, Timing] = {}
    order = [("local", local), ("routed", routed)]
    for name, target in order if run % 2 == 0 else reversed(order):
        timings[name] = await complete(target, prompts.make(run, name), tokens)
    return Pair(run, prompts.words, timings["local"], timings["routed"])


def _json(timing: Timing) -> dict[str, Any]:
    return {
        "ttft_ms": round(timing.time_to_first_token * 1000, 3),
        "decode_tok_s": round(timing.decode_rate or 0.0, 3),
        "longest_gap_ms": round(timing.longest_gap * 1000, 3),
        "events": timing.events,
        "prompt_tokens": timing.prompt_tokens,
        "cached_tokens": timing.cached_tokens,
        "completion_tokens": timing.completion_tokens,
    }


def _write(file: TextIO, line: dict[str, Any]) -> None:
    file.write(json.dumps(line, separators=(",", ":")) + "\n")
    file.flush()


# What it amounts to ---------------------------------------------------------------------------


def report(pairs: Sequence[Pair]) -> list[str]:
    """Two tables, a row for each length of prompt: time to first token in ms, decoding in tokens a second."""
    lines = ["words  time to first token, ms   local   routed    later  (p90 of later)"]
    for words in sorted({pair.words for pair in pairs}):
        some = [pair for pair in pairs if pair.words == words]
        lines.append(
            f"{words:5}  {'':24}{_median(some, lambda p: _ttft(p.local)):8.1f} "
            f"{_median(some, lambda p: _ttft(p.routed)):8.1f} {_median(some, _later):+8.1f}  "
            f"({_p90([_later(p) for p in some]):+.1f})"
        )
    lines += ["", "words  decoding, tokens/s        local   routed    ratio"]
    for words in sorted({pair.words for pair in pairs}):
        some = [pair for pair in pairs if pair.words == words]
        lines.append(
            f"{words:5}  {'':24}{_median(some, lambda p: p.local.decode_rate or 0):8.1f} "
            f"{_median(some, lambda p: p.routed.decode_rate or 0):8.1f} {_median(some, _ratio):8.3f}"
        )
    verdict = "kept" if kept(pairs) else "NOT KEPT"
    later, ratio = _median(pairs, _later), _median(pairs, _ratio)
    bounds = f"bounds +{LATER_MS:g} ms and {DECODE_RATIO:g}"
    lines += ["", f"{len(pairs)} pairs: {later:+.1f} ms, ratio {ratio:.3f}; {bounds}: {verdict}"]
    return lines


def kept(pairs: Sequence[Pair]) -> bool:
    """Whether the medians over all pairs are within the bounds."""
    return _median(pairs, _later) <= LATER_MS and _median(pairs, _ratio) >= DECODE_RATIO


def _ttft(timing: Timing) -> float:
    return timing.time_to_first_token * 1000


def _later(pair: Pair) -> float:
    return _ttft(pair.routed) - _ttft(pair.local)


def _ratio(pair: Pair) -> float:
    return (pair.routed.decode_rate or 0.0) / pair.local.decode_rate if pair.local.decode_rate else 0.0


def _median(pairs: Sequence[Pair], figure: Callable[[Pair], float]) -> float:
    return median(figure(pair) for pair in pairs)


def _p90(values: Sequence[float]) -> float:
    return quantiles(values, n=10)[-1] if len(values) > 1 else values[0]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.routing",
        description="A routed request beside the same one sent to the node that computes it.",
        allow_abbrev=False,
    )
    routes: tuple[Route, ...] = ("completions", "chat")
    parser.add_argument("--local", required=True, help="/v1 of the node that holds the model")
    parser.add_argument("--routed", required=True, help="/v1 of another node of its mesh")
    parser.add_argument("--model", required=True, help="the model's name, the same at both")
    parser.add_argument("--runs", type=int, default=20, help="pairs for each length of prompt (default 20)")
    parser.add_argument("--tokens", type=int, default=64, help="length of each answer (default 64)")
    parser.add_argument(
        "--words", type=int, nargs="+", default=[16, 128], help="lengths of the prompts (default 16 128)"
    )
    parser.add_argument("--route", choices=routes, default="completions", help="route of the API")
    parser.add_argument("--seed", type=int, default=1, help="another seed makes other prompts (default 1)")
    parser.add_argument("--api-key", default="", help="sent to both")
    parser.add_argument("--raw", type=Path, help="file for the figures of every request")
    return parser


if __name__ == "__main__":
    sys.exit(main())

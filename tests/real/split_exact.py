"""Shows on real nodes that a divided model answers as a whole one does. The gate has a short form.

    python -m tests.real.split_exact SMOLLM2.gguf [GEMMA.gguf]

SmolLM2 is divided because two and three nodes lend too little for it; Gemma at fixed cuts, by lock files.
Twenty prompts, 64 greedy tokens each, compared with a node that holds the model as a whole.
"""

import contextlib
import json
import string
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from meshllm_core.models.inspect import inspect_model
from meshllm_core.models.stage_source import local_files, open_source
from meshllm_core.planner.real_model import planned_model
from tests.support.nodes import RunningNode, running_node

TOKENS = 64
PROMPTS = (
    "The capital of France is",
    "Once upon a time, in a village by the sea,",
    "def fibonacci(n):",
    "Water boils at",
    "The three primary colours are",
    "Dear Sir or Madam,",
    "In 1969, the first",
    "A recipe for pancakes: take",
    "The quick brown fox",
    "Photosynthesis is the process by which",
    "Roses are red,",
    "SELECT name FROM users WHERE",
    "The speed of light is",
    "My favourite book is about",
    "To install the program, first",
    "The largest planet in our solar system",
    "If it rains tomorrow,",
    "1, 1, 2, 3, 5, 8,",
    "The mitochondria are",
    "Breaking news: scientists have",
)


def tell(text: str) -> None:
    """One line for the reader."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _start(folder: Path, name: str, *flags: str) -> "contextlib.AbstractContextManager[RunningNode]":
    (folder / name / "home" / "config").mkdir(parents=True)
    (folder / name / "home" / "config" / "config.toml").write_text("models = []\n")
    usual = ("--node-name", name, "--bind-ip", "127.0.0.1", "--mesh-discovery-mode", "off")
    return running_node(folder / name, *usual, "--ctx-size", "512", "--lanes", "2", *flags)


@contextlib.contextmanager
def mesh(folder: Path, names: Sequence[str], *flags: str) -> Iterator[list[RunningNode]]:
    """Nodes without models; the first asks for them."""
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(_start(folder, name, *flags)) for name in names]
        for node in nodes[1:]:
            node.act("join", token=nodes[0].act("invite").json()["token"])
        nodes[0].wait(lambda s: sum(bool(p["name"]) for p in s["peers"]) == len(nodes) - 1, 60)
        yield nodes


def answers(node: RunningNode, model: str) -> list[str]:
    """Of all prompts. No two begin with the same token: a whole model would go on from what it holds of
    another, a divided one not, and tokens computed in other batches differ in their last bits.
    """
    found = []
    for letter, text in zip(string.ascii_uppercase, PROMPTS, strict=False):
        asked = {"model": model, "content": f"{letter}) {text}", "add_special": False}
        prompt = httpx.post(f"{node.api}/v1/tokenize", json=asked, timeout=60).json()["tokens"]
        body = {"model": model, "prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
        answer = httpx.post(f"{node.api}/v1/completions", json=body, timeout=300)
        answer.raise_for_status()
        found.append(str(answer.json()["choices"][0]["text"]))
    return found


def settled(node: RunningNode, name: str) -> dict[str, Any]:
    """The model's row once it is ready or has failed."""

    def row(snapshot: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = next((m for m in snapshot["models"] if name in m["id"]), {"status": ""})
        return found

    return row(node.wait(lambda s: row(s)["status"] in ("ready", "failed"), 180))


def compare(node: RunningNode, name: str, whole: list[str]) -> bool:
    """Says how the split answers, and whether all answers are those of the whole model."""
    row = settled(node, name)
    if row["status"] == "failed":
        tell(f"  refused: {row['error']} {row['hint']}")
        return False
    split = row["split"]
    tell(f"  {split['sentence']}")
    for stage in split["stages"]:
        held = f"{stage['memory_measured'] / 2**20:.0f} MiB resident"
        layers = f"layers {stage['start']}-{stage['end'] - 1}"
        tell(f"  stage {stage['index']}: {stage['node_name']}, {layers}, {held}")
    began = time.monotonic()
    same = sum(a == b for a, b in zip(answers(node, row["id"]), whole, strict=True))
    pace = len(PROMPTS) * TOKENS / (time.monotonic() - began)
    told = f"{same} of {len(PROMPTS)} answers of {TOKENS} greedy tokens are the same"
    tell(f"  {told}; {pace:.1f} tok/s, {split['dtype']}")
    return same == len(PROMPTS)


def whole_answers(folder: Path, model: Path) -> list[str]:
    """Of a node that holds the model alone."""
    with _start(folder, "whole") as node:
        node.act("load", model=str(model))
        row = settled(node, model.stem)
        began = time.monotonic()
        found = answers(node, row["id"])
        pace = len(PROMPTS) * TOKENS / (time.monotonic() - began)
        tell(f"{model.stem}: {len(PROMPTS)} prompts on one node, {pace:.1f} tok/s")
        return found


def forced(model: Path) -> bool:
    """Two and three nodes that lend too little."""
    good = True
    with tempfile.TemporaryDirectory() as folder:
        whole = whole_answers(Path(folder), model)
    for names, lent in ((("Anna", "Bert"), "0.12"), (("Anna", "Bert", "Cora"), "0.075")):
        with tempfile.TemporaryDirectory() as folder, mesh(Path(folder), names, "--max-vram", lent) as nodes:
            tell(f"{len(names)} nodes, --max-vram {lent}:")
            nodes[0].act("load", model=str(model), split=True, wire_dtype="f32")
            good &= compare(nodes[0], model.stem, whole)
    return good


def locked(model: Path, cuts: Sequence[int]) -> bool:
    """Two nodes, the cut fixed by a lock file."""
    facts = inspect_model(model)
    planned = planned_model(facts, open_source(local_files(model)))
    layers, fingerprint = planned.model.layers, planned.model.fingerprint
    good = True
    with tempfile.TemporaryDirectory() as folder:
        whole = whole_answers(Path(folder), model)
    with tempfile.TemporaryDirectory() as folder, mesh(Path(folder), ("Anna", "Bert")) as (anna, _):
        for cut, dtype in (*((cut, "f32") for cut in cuts), (cuts[-1], "q8")):
            stages = [
                {"node": "Bert", "layer_start": 0, "layer_end": cut},
                {"node": "Anna", "layer_start": cut, "layer_end": layers},
            ]
            lock = {
                "version": 1,
                "model": planned.model.name,
                "manifest_sha256": fingerprint,
                "stages": stages,
            }
            file = Path(folder) / f"lock-{cut}.json"
            file.write_text(json.dumps(lock))
            tell(f"2 nodes, cut at {cut}, {dtype}:")
            anna.act("load", model=str(model), split=True, wire_dtype=dtype, split_topology_lock=str(file))
            good &= compare(anna, model.stem, whole) == (dtype == "f32")
            anna.act("unload", model=model.stem)
    return good


def main() -> None:
    """See the module."""
    smollm2, *gemma = (Path(name) for name in sys.argv[1:])
    good = forced(smollm2)
    for model in gemma:
        good &= locked(model, (6, 8, 12))
    tell("all as it should be" if good else "NOT as it should be")
    sys.exit(not good)


if __name__ == "__main__":
    main()

"""Makes the support table: `python -m tests.stages.support --all`, about ten minutes on two idle cores.

Each model has a process of its own: an assertion of llama.cpp ends it, and counts as a wrong cut.
`python -m tests.stages.support ARCHITECTURE[/VARIANT] …` examines only those, and writes nothing.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from meshllm_core.models import stage_support
from meshllm_core.models.architectures import BINDING
from meshllm_core.models.stage_support import CutRecord, ModelRecord, SupportTable
from meshllm_core.models.stage_table import RULES
from tests.stages.chain import DECODE, PREFILL
from tests.stages.examine import cuts_of, examine
from tests.support.tiny_architecture_keys import VARIANTS

TIME_LIMIT = 600
"""Seconds for one model."""


def subjects() -> list[tuple[str, str]]:
    """(architecture, variant) of all models; the architectures that are never cut have none."""
    return [
        (architecture, variant)
        for architecture, rule in RULES.items()
        if not rule.refusal
        for variant in ("", *VARIANTS.get(architecture, ()))
    ]


def refusals() -> list[ModelRecord]:
    """The architectures that are never cut."""
    return [ModelRecord(name, refusal=rule.refusal) for name, rule in RULES.items() if rule.refusal]


def record(architecture: str, variant: str) -> ModelRecord:
    """Examines one model in a child process, as often as a cut ends the process."""
    cuts: list[CutRecord] = []
    while True:
        lines, code, tail = _child(architecture, variant, cuts[-1].cut if cuts else 0)
        if not lines:
            raise RuntimeError(f"{architecture} {variant} does not run undivided: {tail}")
        head = msgspec.json.decode(lines[0], type=ModelRecord)
        told = lines[1:-1] if code == 0 else lines[1:]
        cuts.extend(msgspec.json.decode(line, type=CutRecord) for line in told)
        if code == 0:
            whole = msgspec.json.decode(lines[-1], type=ModelRecord)
            return msgspec.structs.replace(whole, cuts=tuple(cuts))
        done = {cut.cut for cut in cuts}
        ended = next((cut for cut in cuts_of(head.layers) if cut not in done), head.layers)
        cuts.append(CutRecord(ended, "wrong", words=f"the process ended with {code}: {tail}"))
        if ended == head.layers:
            return msgspec.structs.replace(head, cuts=tuple(cuts))


def _child(architecture: str, variant: str, skip: int) -> tuple[list[str], int, str]:
    command = [sys.executable, "-m", "tests.stages.support", "--one", architecture, variant, str(skip)]
    environment = os.environ | {"GGML_NO_BACKTRACE": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIME_LIMIT, check=False, env=environment
    )
    told = [line for line in done.stderr.splitlines() if "ASSERT" in line or "rror" in line]
    return done.stdout.splitlines(), done.returncode, told[-1] if told else ""


def _one(architecture: str, variant: str, skip: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for found in examine(Path(folder), architecture, variant, skip):
            sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
            sys.stdout.flush()


def _tell(found: ModelRecord) -> None:
    results = [cut.result for cut in found.cuts]
    counts = ", ".join(f"{results.count(r)} {r}" for r in ("exact", "refused", "wrong") if r in results)
    also = f"rollback {found.rollback}, first stage by {found.first_stage}"
    sys.stdout.write(f"{found.architecture} {found.variant or 'plain'}: {counts}; {also}\n")
    for cut in found.cuts:
        if cut.result == "wrong":
            sys.stdout.write(f"    {cut.cut}: {cut.words}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """Entry point; the exit code is 1 when a cut is wrong."""
    if arguments[:1] == ["--one"]:
        _one(arguments[1], arguments[2], int(arguments[3]))
        return 0
    whole = list(arguments) == ["--all"]
    wanted = subjects() if whole else [(name, variant) for name, _, variant in map(_parts, arguments)]
    found = []
    for architecture, variant in wanted:
        found.append(record(architecture, variant))
        _tell(found[-1])
    if whole:
        table = SupportTable(BINDING, PREFILL, DECODE, (*found, *refusals()))
        target = Path(stage_support.__file__).with_name(stage_support.FILE_NAME)
        target.write_bytes(msgspec.json.format(msgspec.json.encode(table), indent=1) + b"\n")
    results = [cut.result for model in found for cut in model.cuts]
    return int("wrong" in results or any(model.rollback == "wrong" for model in found))


def _parts(argument: str) -> tuple[str, str, str]:
    return argument.partition("/")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

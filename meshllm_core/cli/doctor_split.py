"""`meshllm doctor split MODEL`: which machine could take a stage, and what a split of the model would be."""

import contextlib
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meshllm_core.api.schema_certify import Certificates
from meshllm_core.api.schema_config import Config
from meshllm_core.cli import text
from meshllm_core.cli.connect import ask
from meshllm_core.cli.control import absolute
from meshllm_core.cli.options import AsJson, Console
from meshllm_core.cli.output import Tone, clean, emit, emit_json, paint, table
from meshllm_core.config import load_settings
from meshllm_core.errors import ExitCode, MeshError, ModelNotFound
from meshllm_core.paths import Paths, default_paths
from meshllm_core.state.snapshot import ModelView, NodeSnapshot

if TYPE_CHECKING:
    from meshllm_core.api.client import ManagementClient
    from meshllm_core.cli.doctor_machines import MachineRow
    from meshllm_core.cli.doctor_verdict import Verdict

LOADS = ("ctx_size", "lanes", "batch", "kv_type", "prefix_slots", "wire_dtype")
"""Settings that a load goes by: those of the running node, whose flags only it knows."""

Model = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A .gguf path, a downloaded model's name, a loaded one's, default."),
]
ContextSize = Annotated[
    int, typer.Option("--ctx-size", metavar="N", min=0, max=4_194_304, help="Tokens per lane; 0 chooses.")
]
Lanes = Annotated[
    int, typer.Option("--lanes", metavar="N", min=0, max=64, help="Requests at the same time; 0: as set.")
]


def split(
    model: Model,
    ctx_size: ContextSize = 0,
    lanes: Lanes = 0,
    as_json: AsJson = False,
    console: Console = "",
) -> None:
    """Say of each machine whether it could take part in a split of MODEL, and how it would be split.

    Exit code 7 when it cannot run on these machines, whole or split.
    """
    snapshot, told = ask(_asked, console=console)
    verdict = _judged(model, snapshot, told, ctx_size, lanes)
    if as_json:
        emit_json(verdict)
    else:
        emit(render(verdict))
    if verdict.verdict == "impossible":
        raise typer.Exit(ExitCode.CHECK)


async def _asked(client: "ManagementClient") -> tuple[NodeSnapshot, dict[str, object]]:
    """What the node knows and how it would load, after it looked what others measured.

    Without the latter two the plan stands too.
    """
    told: dict[str, object] = {}
    with contextlib.suppress(MeshError):
        await client.ask("certificates", Certificates)
    with contextlib.suppress(MeshError):
        rows = (await client.ask("config", Config)).rows
        told = {row.key: tomllib.loads(f"value = {row.value}")["value"] for row in rows if row.key in LOADS}
    return await client.snapshot(), told


def _judged(
    model: str, snapshot: NodeSnapshot, told: dict[str, object], context: int, lanes: int
) -> "Verdict":
    # The planner and what reads model files take a moment to import: only this command waits for them.
    from meshllm_core.cli.doctor_machines import candidates, with_stages
    from meshllm_core.cli.doctor_verdict import judge, running

    paths = default_paths()
    found, loaded = candidates(snapshot), _loaded(model, snapshot)
    if loaded is not None and loaded.split is not None and loaded.status != "failed":
        placed = with_stages(found, loaded.split) if loaded.status == "ready" else found
        return running(loaded.id, loaded.split, placed)
    path = _file(model, loaded, paths)
    settings = load_settings(paths, flags=told, environ=os.environ)
    return judge(path, found, asked=model, settings=settings, paths=paths, context=context, lanes=lanes)


def _loaded(model: str, snapshot: NodeSnapshot) -> ModelView | None:
    wanted = (model, absolute(model))
    return next((view for view in snapshot.models if view.id in wanted or view.ref in wanted), None)


def _file(model: str, loaded: ModelView | None, paths: Paths) -> Path:
    """The model's file on this disk. Raises ModelNotFound."""
    from meshllm_core.models.cache import Cache
    from meshllm_core.models.embedded import embedded_model

    if loaded is not None and loaded.path:
        return Path(loaded.path)
    if model == "default":
        return embedded_model()
    path = Path(absolute(model))
    if path.is_file():
        return path
    for found in Cache(paths.models).find(model):
        if found.complete:
            return found.files[0]
    raise ModelNotFound(
        f"No model {model!r} is here, and its file says where it can be cut.",
        hint="Fetch it with `meshllm models download`; `meshllm plan` also takes a description.",
    )


def render(verdict: "Verdict") -> str:
    """The verdict for a person; texts of other machines are cleaned."""
    parts = [_machines(verdict.machines)]
    hints = [f"{each.name}: {each.hint}" for each in verdict.machines if each.hint]
    if hints:
        parts.append("\n".join(clean(hint) for hint in hints))
    tone: Tone = "bad" if verdict.verdict == "impossible" else "good"
    word = paint(_WORDS[verdict.verdict], tone)
    parts.append(f"{word}  {clean(verdict.sentence)}")
    facts = [f"  {clean(reason)}" for reason in (*verdict.missing, *verdict.reasons)]
    if verdict.context:
        facts.append(f"  context {verdict.context} tokens × {verdict.lanes} lanes")
    if facts:
        parts.append("\n".join(facts))
    if verdict.would_fit:
        parts.append(clean(f"What would do: {'; '.join(verdict.would_fit)}."))
    if verdict.hint:
        parts.append(clean(verdict.hint))
    return "\n\n".join(parts)


_WORDS = {
    "alone": "no split needed",
    "split": "can be split",
    "running": "is split",
    "impossible": "cannot run",
}


def _machines(found: "tuple[MachineRow, ...]") -> str:
    rows = [
        (
            f"{each.name} (this node)" if each.this_node else each.name,
            "eligible" if each.eligible else "no",
            text.size(each.memory_lent),
            text.milliseconds(each.rtt_ms or 0),
            f"{text.size(each.weights_per_second)}/s {each.speed}"
            if each.weights_per_second
            else "not measured",
            f"{each.layer_start}–{each.layer_end - 1}" if each.layer_end is not None else "–",
            each.reason,
        )
        for each in found
    ]
    heads = ("machine", "takes part", "memory lent", "rtt", "speed", "layers", "why")
    return table(heads, rows, right=(2, 3))

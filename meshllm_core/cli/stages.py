"""`meshllm stages`: where models can be divided into stages, and what has been proved of it."""

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meshllm_core.cli import text
from meshllm_core.cli.options import AsJson
from meshllm_core.cli.output import clean, emit, emit_json, fields, table
from meshllm_core.errors import ConfigError

if TYPE_CHECKING:
    from meshllm_core.models.stage_rules import StageRules

app = typer.Typer(help="Show where models can be divided between machines.", no_args_is_help=True)

Architecture = Annotated[
    str, typer.Argument(metavar="[ARCHITECTURE]", help="One architecture, cut by cut. Default: all of them.")
]
Model = Annotated[Path, typer.Argument(metavar="FILE", help="A .gguf file, or any part of a split set.")]
Cuts = Annotated[
    str,
    typer.Option("--cuts", metavar="N,…", help="Show the stages between these layers, for example 10,20."),
]


@app.command()
def support(architecture: Architecture = "", as_json: AsJson = False) -> None:
    """Show which cuts of which architectures were proved exact, and by what means."""
    from meshllm_core.models.stage_support import summaries, support_table

    known = support_table()
    found = [model for model in known.models if architecture in ("", model.architecture)]
    if not found:
        raise ConfigError(
            f"There is no architecture {architecture!r} in the table: models of it are not divided.",
            hint="`meshllm stages support` lists those that are.",
        )
    if as_json:
        emit_json({"llama_cpp": known.llama_cpp, "models": found})
        return
    if architecture:
        rows = [
            (model.variant or "plain", str(cut.cut), cut.result, cut.mechanism, str(cut.padding), cut.words)
            for model in found
            for cut in model.cuts
        ]
        emit(table(("model", "cut", "result", "means", "zero layers", "why"), rows, right=(1, 4)))
        for reason in [model.refusal for model in found if model.refusal]:
            emit(clean(f"Never divided: {reason}."))
        return
    lines = [
        (
            row.architecture,
            f"{row.exact} of {row.exact + row.refused + row.wrong}",
            ", ".join(row.mechanisms),
            {"exact": "yes", "refused": "no"}.get(row.rollback, row.rollback),
            row.words,
        )
        for row in summaries(known)
    ]
    emit(table(("architecture", "exact cuts", "means", "rollback", "refused because"), lines, right=(1,)))
    emit()
    emit(
        f"Proved with {known.llama_cpp}: {known.prefill + known.decode} positions of small random models, "
        "every logit equal to the undivided model's."
    )


@app.command()
def show(model: Model, cuts: Cuts = "", as_json: AsJson = False) -> None:
    """Show where a model may be cut, or the stages between given cuts. Needs no node."""
    from meshllm_core.models.package_folder import package_files
    from meshllm_core.models.stage_rules import StageRules
    from meshllm_core.models.stage_source import local_files, open_source

    rules = StageRules(open_source(package_files(model) or local_files(model)))
    if cuts:
        _stages(rules, _numbers(cuts), as_json)
        return
    forbidden = rules.forbidden_cuts
    document = {
        "architecture": rules.architecture,
        "layers": rules.layers,
        "legal_cuts": rules.legal_cuts,
        "forbidden_cuts": {str(cut): reason for cut, reason in forbidden.items()},
        "rollback": rules.rollback,
        "sideband": rules.sideband,
    }
    if as_json:
        emit_json(document)
        return
    every = len(rules.legal_cuts) == rules.layers - 1
    rows = [
        ("architecture", rules.architecture),
        ("layers", str(rules.layers)),
        ("cuts", "at every layer" if every else ", ".join(map(str, rules.legal_cuts)) or "none"),
        ("rollback", "yes" if rules.rollback else "no: a request stays where it began"),
        ("travels along", "hidden rows and token ids" if rules.sideband else "hidden rows"),
    ]
    emit(fields(rows))
    for cut, reason in forbidden.items():
        emit(clean(f"Not at {cut}: {reason}."))


def _numbers(cuts: str) -> list[int]:
    try:
        found = [int(cut) for cut in cuts.split(",")]
    except ValueError as error:
        raise ConfigError(
            f"--cuts is {cuts!r}, not a list of layers.", hint="Write numbers: --cuts 10,20.", param="--cuts"
        ) from error
    if sorted(set(found)) != found:
        raise ConfigError(
            f"--cuts {cuts} does not rise.", hint="Name each cut once, in order.", param="--cuts"
        )
    return found


def _stages(rules: "StageRules", cuts: list[int], as_json: bool) -> None:
    from meshllm_core.models.stage_file import plan_stage_file

    edges = [0, *cuts, rules.layers]
    planned = [plan_stage_file(rules, a, b) for a, b in pairwise(edges)]
    if as_json:
        emit_json(
            [
                {
                    "start": stage.shape.start,
                    "end": stage.shape.end,
                    "bytes": stage.copied_bytes,
                    "mechanism": stage.shape.mechanism,
                    "padding": stage.shape.padding,
                }
                for stage in planned
            ]
        )
        return
    rows = [
        (
            f"{stage.shape.start} to {stage.shape.end - 1}",
            text.size(stage.copied_bytes),
            stage.shape.mechanism,
            str(stage.shape.padding),
        )
        for stage in planned
    ]
    emit(table(("layers", "weights", "means", "zero layers"), rows, right=(1, 3)))

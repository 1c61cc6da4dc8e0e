"""`meshllm doctor`: is everything there that a node needs, and if not, what to do."""

import typer

from meshllm_core.cli.doctor_checks import Check, run_checks
from meshllm_core.cli.doctor_mesh import mesh_checks
from meshllm_core.cli.doctor_split import split
from meshllm_core.cli.options import AsJson
from meshllm_core.cli.output import Tone, clean, emit, emit_json, paint
from meshllm_core.errors import ConfigError, ExitCode
from meshllm_core.paths import default_paths

_TONES: dict[str, Tone] = {"pass": "good", "warn": "warn", "fail": "bad"}


app = typer.Typer(invoke_without_command=True)
app.command("split")(split)


@app.callback()
def doctor(context: typer.Context, as_json: AsJson = False) -> None:
    """Check this machine: every check passes, or says what to do next. Exit code 7 when one fails."""
    if context.invoked_subcommand is not None:
        if as_json:
            command = context.invoked_subcommand
            raise ConfigError("--json stands before the command.", hint=f"Write `doctor {command} … --json`.")
        return
    paths = default_paths()
    checks = [*run_checks(paths), *mesh_checks(paths)]
    failed = any(check.status == "fail" for check in checks)
    if as_json:
        places = {"config": paths.config_file, "token": paths.token_file, "logs": paths.logs}
        emit_json(
            {
                "ok": not failed,
                "checks": checks,
                "paths": {name: str(place) for name, place in {**places, "models": paths.models}.items()},
            }
        )
    else:
        emit(render(checks))
        emit(f"\ntoken file  {paths.token_file}\nlogs        {paths.logs}\nmodels      {paths.models}")
    if failed:
        raise typer.Exit(ExitCode.CHECK)


def render(checks: list[Check]) -> str:
    """One line per check, and below it what to do."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        word = paint(check.status, _TONES[check.status])
        lines.append(f"{word}  {check.name.ljust(width)}  {clean(check.detail)}")
        if check.hint:
            lines.append(f"      {' ' * width}  {clean(check.hint)}")
    return "\n".join(lines)

"""`meshllm pause` and `meshllm resume`: whether this machine computes for others."""

import msgspec

from meshllm_core.api.schema_mesh import LendingAnswer
from meshllm_core.cli.connect import ask
from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.options import AsJson, Console
from meshllm_core.cli.output import emit, emit_json


def pause(as_json: AsJson = False, console: Console = "") -> None:
    """Lend nothing new to other machines until `meshllm resume`; what runs for them is let run."""
    answer = _set(on=False, console=console)
    if as_json:
        emit_json(answer)
        return
    emit("Lending is paused: other machines get no new answers and no new stages from this one.")
    if answer.requests_running:
        say(f"{answer.requests_running} of their requests still run here, and end by themselves.")
    if answer.stages_running:
        count = answer.stages_running
        stages = "1 stage of their models stays" if count == 1 else f"{count} stages of their models stay"
        say(f"{stages} until those machines unload them.")
    say("It lasts until `meshllm resume`, or until the node starts again.")


def resume(as_json: AsJson = False, console: Console = "") -> None:
    """Lend to other machines again."""
    answer = _set(on=True, console=console)
    if as_json:
        emit_json(answer)
    else:
        emit("This machine lends again.")


def _set(*, on: bool, console: str) -> LendingAnswer:
    told = ask(lambda client: client.act("lending", on=on), console=console)
    return msgspec.convert(told, LendingAnswer)

"""`meshllm replay`: a recording on the screens that it was taken from."""

from pathlib import Path
from typing import Annotated

import typer

from meshllm_core.cli.dashboard import has_screen
from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.options import AsJson
from meshllm_core.cli.output import clean, emit, emit_json
from meshllm_core.cli.text import counted, duration

File = Annotated[Path, typer.Argument(metavar="FILE", help="A recording made by `meshllm record`.")]
Speed = Annotated[
    float, typer.Option("--speed", min=0.1, max=1000, help="How many times as fast as it happened.")
]


def replay(file: File, speed: Speed = 1.0, as_json: AsJson = False) -> None:
    """Show a recording in the dashboard. Nothing in it can be changed; no node is needed."""
    from meshllm_tui.recording_file import open_recording

    with open_recording(file) as recording:
        if not as_json and has_screen():
            from meshllm_tui.replay import run_replay

            raise typer.Exit(run_replay(recording, speed))
        index = recording.index
        last = recording.state_at(index.seconds)
        told = {
            "file": str(file),
            "version": index.header.version,
            "at": index.header.at,
            "redacted": index.header.redacted,
            "seconds": index.seconds,
            "events": index.events,
            "cut": index.cut,
            "models": [str(model.id) for model in last.models],
            "machines": 1 + len(last.peers),
        }
        if as_json:
            emit_json(told)
            return
        length = f"{counted(index.events, 'event')} in {duration(index.seconds)}"
        held = f"{counted(1 + len(last.peers), 'machine')}, {counted(len(last.models), 'model')}"
        emit(clean(f"{file}: {length} of meshllm {index.header.version}; {held}."))
        say("There is no terminal here for the dashboard; this is what the recording holds.")

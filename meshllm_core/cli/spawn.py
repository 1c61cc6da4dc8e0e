"""Starts a node in the background, so that it outlives the terminal it was started from."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Sequence
from io import FileIO
from pathlib import Path

from meshllm_core.api.record import NodeRecord, find_node
from meshllm_core.errors import ExitCode, MeshError, NodeError
from meshllm_core.paths import Paths

START_SECONDS = 30.0
"""So long a node may take until its management API answers. Loading a model is not part of it."""
OUTPUT_SHOWN = 4096
"""Bytes of what a failed node said that are shown."""


def output_file(paths: Paths) -> Path:
    """Where a node that runs in the background says what it says."""
    return paths.logs / "node-output.log"


def start_node(paths: Paths, arguments: Sequence[str] = ()) -> "subprocess.Popen[bytes]":
    """Starts `meshllm serve --headless` in a session of its own. Raises NodeError."""
    file = output_file(paths)
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        output = _emptied(file)
    except OSError as error:
        raise NodeError(
            f"Cannot write {file}: {error.strerror}.", hint="Free some space, or set MESHLLM_HOME."
        ) from None
    with output:
        return subprocess.Popen(
            [sys.executable, "-m", "meshllm_core.cli.main", "serve", "--headless", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=sys.platform != "win32",
            creationflags=_creation_flags(),
        )


def _emptied(file: Path) -> FileIO:
    """The file, empty and known to take text: on a full disk it could be made, and the words be lost."""
    with contextlib.ExitStack() as opened:
        # Appending: an earlier node that still writes there must not leave holes.
        output = opened.enter_context(file.open("ab", buffering=0))
        output.truncate(0)
        output.write(b"\n")
        opened.pop_all()
    return output


def wait_for_node(paths: Paths, process: "subprocess.Popen[bytes]") -> NodeRecord:
    """The node's record once it answers. Raises the failure that the node itself reported."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        found = find_node(paths)
        if found is not None:
            return found
        if process.poll() is not None:
            raise failure(paths, process.returncode)
        time.sleep(0.05)
    raise NodeError(
        f"The node did not answer within {START_SECONDS:.0f} s.", hint=f"See {output_file(paths)}."
    )


def failure(paths: Paths, code: int) -> MeshError:
    """What a node that ended at once said, as an error with its exit code."""
    said = _tail(output_file(paths)).removeprefix("error: ")
    message, _, hint = said.partition("\n")
    error = NodeError(message or f"The node ended with exit code {code}.", hint=hint.strip())
    if code in {int(known) for known in ExitCode}:
        error.exit_code = ExitCode(code)
    return error


def _tail(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - OUTPUT_SHOWN))
            lines = opened.read().decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    starts = [index for index, line in enumerate(lines) if line.startswith("error: ")]
    return "\n".join(lines[starts[-1] :] if starts else lines[-5:])


def _creation_flags() -> int:
    if sys.platform == "win32":
        return subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
    return 0

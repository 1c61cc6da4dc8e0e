"""Starts the process that measures codecs, and hands on what it says."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from meshllm_core.engine.certify_protocol import (
    LINE_LIMIT,
    CertifyJob,
    Doing,
    Failed,
    Measured,
    Over,
    line_decoder,
)
from meshllm_core.engine.supervisor import ENVIRONMENT
from meshllm_core.errors import EngineError, EngineExited

_LOG_LINES = 5
_LOG_BYTES = 4096
_END_SECONDS = 5.0


def run_certify(
    job: CertifyJob,
    log: Path,
    on_progress: Callable[[Doing], None],
    on_start: "Callable[[subprocess.Popen[bytes]], None]" = lambda process: None,
) -> tuple[dict[int, Measured], Over]:
    """Measures in a process of its own: the figures of each chain, by number, and how they were made.

    `on_start` gets the process as soon as it runs; to kill it ends this call with EngineExited.

    The process writes what llama.cpp says to `log`. It ends with this call, however that ends. Raises
    EngineError for what it reports, EngineExited when it dies.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("ab") as output,
        subprocess.Popen(
            [sys.executable, "-m", "meshllm_core.engine.certify"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            env={**ENVIRONMENT, **os.environ},
        ) as process,
    ):
        try:
            on_start(process)
            return _talk(process, job, log, on_progress)
        finally:
            process.kill()


def _talk(
    process: "subprocess.Popen[bytes]", job: CertifyJob, log: Path, on_progress: Callable[[Doing], None]
) -> tuple[dict[int, Measured], Over]:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(msgspec.json.encode(job))
        process.stdin.close()
    except BrokenPipeError:
        raise _exited(process, log) from None
    found: dict[int, Measured] = {}
    while raw := process.stdout.readline(LINE_LIMIT):
        try:
            line = line_decoder.decode(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            raise EngineError(
                f"The process that measures codecs wrote a line that is none: {error}."
            ) from error
        match line:
            case Doing():
                on_progress(line)
            case Measured():
                found[line.chain] = line
            case Over():
                return found, line
            case Failed():
                raise EngineError(line.message, hint=line.hint)
    raise _exited(process, log)


def _exited(process: "subprocess.Popen[bytes]", log: Path) -> EngineExited:
    code = process.wait(_END_SECONDS)
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - _LOG_BYTES))
        tail = tuple(stream.read().decode(errors="replace").splitlines()[-_LOG_LINES:])
    reason = "signal" if code < 0 else "exit"
    return EngineExited(
        f"The process that measures codecs ended with {reason} {abs(code)}.",
        reason=reason,
        log_tail=tail,
        hint=f"llama.cpp's last words are in {log}.",
    )

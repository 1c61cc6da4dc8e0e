"""The checks of `meshllm doctor`, one function each. None of them changes anything but a file it removes."""

import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Literal

import msgspec

from meshllm_core.api.record import find_node, read_record
from meshllm_core.api.token import stored_token
from meshllm_core.cli.ports import can_bind
from meshllm_core.config import Settings, load_settings
from meshllm_core.errors import ConfigError, MeshError, NodeError
from meshllm_core.models.units import show_bytes
from meshllm_core.paths import Paths

GIB = 1 << 30
MEMORY_LOW, MEMORY_LEAST = 2 * GIB, GIB // 2
DISK_LOW, DISK_LEAST = 5 * GIB, GIB // 2
OLDEST_PYTHON = (3, 11)


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One result. `hint` says what to do next, unless it passed."""

    name: str
    status: Literal["pass", "warn", "fail"]
    detail: str
    hint: str = ""


def run_checks(paths: Paths) -> list[Check]:
    """All checks, in the order in which a start would meet the problems."""
    settings, configuration = check_configuration(paths)
    return [
        check_python(),
        configuration,
        *(check_writable(name, folder) for name, folder in _folders(paths)),
        check_token(paths),
        check_engine(settings),
        check_compiler(),
        check_memory(),
        check_disk(paths),
        check_default_model(),
        check_node(paths),
        *check_ports(paths, settings),
    ]


def check_python() -> Check:
    """Is this Python new enough?"""
    detail = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info >= OLDEST_PYTHON:
        return Check(name="python", status="pass", detail=detail)
    return Check(name="python", status="fail", detail=detail, hint="Install Python 3.11 or later.")


def check_configuration(paths: Paths) -> tuple[Settings, Check]:
    """Is the configuration right? Settings for the other checks are the defaults if it is not."""
    try:
        settings = load_settings(paths, environ=os.environ)
    except ConfigError as error:
        return Settings(), Check(name="config", status="fail", detail=error.message, hint=error.hint)
    known = len(settings.sources)
    detail = f"{known} values set, the others are defaults" if known else "all defaults"
    if settings.warnings:
        detail, hint = " ".join(settings.warnings), "`meshllm config` lists the variables there are."
        return settings, Check(name="config", status="warn", detail=detail, hint=hint)
    return settings, Check(name="config", status="pass", detail=detail)


def check_writable(name: str, folder: Path) -> Check:
    """Can files be made in a folder, or where it will be made?"""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        with tempfile.TemporaryFile(dir=there):
            return Check(name=name, status="pass", detail=f"{folder} can be written")
    except OSError as error:
        hint = f"Give yourself write access to {there}, or set MESHLLM_HOME to another folder."
        return Check(name=name, status="fail", detail=f"{folder}: {error.strerror}", hint=hint)


def check_token(paths: Paths) -> Check:
    """Does the token's file hold one? A node makes it, and does not start with one that is damaged."""
    try:
        held = stored_token(paths.token_file)
    except NodeError as error:
        return Check(name="token", status="fail", detail=error.message, hint=error.hint)
    except OSError as error:
        hint = "Give yourself read access to it, or delete it: the next start makes a new one."
        detail = f"{paths.token_file} cannot be read: {error.strerror}"
        return Check(name="token", status="fail", detail=detail, hint=hint)
    detail = f"{paths.token_file}" if held else "none yet; the first start makes it"
    return Check(name="token", status="pass", detail=detail)


def check_engine(settings: Settings) -> Check:
    """Does llama.cpp start, and does it see the accelerator that is built in and the device that is set?"""
    from meshllm_core.node.devices import list_devices

    try:
        devices = list_devices()
    except MeshError as error:
        return Check(name="llama.cpp", status="fail", detail=error.message, hint=error.hint)
    names = ", ".join(f"{device.name} ({device.description})" for device in devices)
    choices = {"auto", "cpu", *(device.name.lower() for device in devices)}
    if settings.device.lower() not in choices:
        hint = "Set it to auto, or to a name from `meshllm gpus`."
        detail = f"starts with {names}, but device is {settings.device!r}"
        return Check(name="llama.cpp", status="fail", detail=detail, hint=hint)
    unseen = _unseen_accelerator()
    if unseen and all(device.kind == "cpu" for device in devices):
        hint = "Run `sh installers/run.sh` again: it says what the accelerator still needs."
        return Check(
            name="llama.cpp", status="warn", detail=f"starts with {names}, but not with {unseen}", hint=hint
        )
    return Check(name="llama.cpp", status="pass", detail=f"starts with {names}")


def check_compiler() -> Check:
    """Could the engine be built again? Only needed for that."""
    compiler = next((name for name in ("c++", "g++", "clang++") if shutil.which(name)), "")
    if compiler:
        return Check(name="compiler", status="pass", detail=f"{shutil.which(compiler)}")
    hint = "Install a C++ compiler (Debian: apt install build-essential) before you update meshllm."
    return Check(name="compiler", status="warn", detail="none found; the engine cannot be rebuilt", hint=hint)


def check_memory() -> Check:
    """Is there memory for a model?"""
    from meshllm_core.models.memory import read_memory

    memory = read_memory()
    limit = f", limited by {memory.limited_by}" if memory.limited_by else ""
    detail = f"{show_bytes(memory.available)} of {show_bytes(memory.total)} free{limit}"
    return _measured("memory", detail, memory.available, MEMORY_LOW, MEMORY_LEAST, "Close other programs.")


def check_disk(paths: Paths) -> Check:
    """Is there room for a download?"""
    from meshllm_core.models.resolve import free_disk

    free = free_disk(paths.models)
    hint = "Free some space (`meshllm models prune --all`), or set MESHLLM_HOME to a larger disk."
    return _measured("disk", f"{show_bytes(free)} free for {paths.models}", free, DISK_LOW, DISK_LEAST, hint)


def check_default_model() -> Check:
    """Is the model that comes with meshllm there, and whole?"""
    from meshllm_core.models.embedded import embedded_model
    from meshllm_core.models.inspect import inspect_model

    try:
        facts = inspect_model(embedded_model())
    except MeshError as error:
        return Check(name="default model", status="warn", detail=error.message, hint=error.hint)
    return Check(
        name="default model", status="pass", detail=f"{facts.model_id}, {show_bytes(facts.file_bytes)}"
    )


def check_node(paths: Paths) -> Check:
    """Does the node that is recorded answer?"""
    record = read_record(paths)
    if record is None:
        return Check(name="node", status="pass", detail="not running; `meshllm` starts it")
    if find_node(paths) is not None:
        return Check(
            name="node", status="pass", detail=f"process {record.pid} answers at {record.console_url}"
        )
    detail = f"{paths.node_file} names process {record.pid}, which does not answer"
    hint = "It ended without saying so; the next start replaces the record. `meshllm logs` may tell why."
    return Check(name="node", status="warn", detail=detail, hint=hint)


def check_ports(paths: Paths, settings: Settings) -> list[Check]:
    """Are the ports free, or held by our own node?"""
    wanted = (
        ("port", settings.host, settings.port),
        ("console port", settings.console_host, settings.console_port),
    )
    running = find_node(paths)
    ours = (running.api_url, running.console_url) if running else ()
    checks = []
    for name, host, port in wanted:
        if any(url.endswith(f":{port}") for url in ours):
            checks.append(Check(name=name, status="pass", detail=f"{port} is the running node's"))
        elif port == 0 or can_bind(host, port):
            checks.append(Check(name=name, status="pass", detail=f"{port} on {host} is free"))
        elif running:
            checks.append(Check(name=name, status="pass", detail=f"{port} is taken; the node uses another"))
        else:
            flag = "--port" if name == "port" else "--console"
            hint = f"End the program that has it, or use another with `meshllm serve {flag} N`."
            checks.append(Check(name=name, status="fail", detail=f"{port} on {host} is taken", hint=hint))
    return checks


def _measured(name: str, detail: str, value: int, low: int, least: int, hint: str) -> Check:
    if value >= low:
        return Check(name=name, status="pass", detail=detail)
    return Check(name=name, status="warn" if value >= least else "fail", detail=detail, hint=hint)


def _folders(paths: Paths) -> tuple[tuple[str, Path], ...]:
    return (("data folder", paths.data), ("cache folder", paths.cache), ("log folder", paths.logs))


def _unseen_accelerator() -> str:
    if Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi"):
        return "the NVIDIA card"
    return "the AMD card" if Path("/dev/kfd").exists() else ""

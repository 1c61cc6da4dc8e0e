"""Bare `meshllm`: the dashboard of the running node, or of one that is started for it."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from meshllm_core.api.record import NodeRecord, find_node
from meshllm_core.cli.diagnostics import report, say
from meshllm_core.cli.ports import can_bind
from meshllm_core.cli.spawn import failure, start_node, wait_for_node
from meshllm_core.config import Settings, base_url, load_settings
from meshllm_core.errors import ExitCode, NodeAlreadyRunning, PortTaken
from meshllm_core.paths import Paths, default_paths
from meshllm_tui.preferences import Preferences, read_preferences

if TYPE_CHECKING:
    import subprocess

BROWSER_DRIVER = "textual.drivers.web_driver:WebDriver"
"""What textual-serve sets: the screen is in a browser, and no terminal is needed."""
STOP_NODE = 10
"""What the dashboard returns when the person asked to stop the node."""


def dashboard(
    arguments: Sequence[str] = (),
    *,
    flags: Mapping[str, object] | None = None,
    config_file: Path | None = None,
    as_json: bool = False,
    plain: bool = False,
    secrets: Mapping[str, str] | None = None,
) -> int:
    """Attaches or starts, then shows. `arguments` are those of `serve`, for a node that is started.

    `plain`: as lines of text, which is also what comes where no dashboard can be drawn.
    `secrets` are variables for that node: what must not stand in its arguments.
    """
    if secrets:
        os.environ.update(secrets)
    paths = default_paths()
    settings = load_settings(paths, flags=flags, environ=os.environ, config_file=config_file)
    for warning in settings.warnings:
        say(f"warning: {warning}")
    found = find_node(paths)
    if found is not None and (arguments or secrets):
        raise NodeAlreadyRunning(
            f"A node runs already (process {found.pid}), and its settings cannot be changed from here.",
            hint="Use `meshllm load MODEL` to add a model, or `meshllm stop` first; `meshllm` shows it.",
        )
    if as_json or plain or not has_screen():
        from meshllm_core.cli.plain import show_plain

        if not as_json and not plain:
            say("There is no terminal here for the dashboard; this is the node's status as text.")
        record = found or _start_plain(paths, settings, arguments)
        return show_plain(record, follow=sys.stdout.isatty(), as_json=as_json)
    if settings.api_key:
        # The dashboard's chat is a client of /v1 like any other, and its key may stand in config.toml only.
        os.environ["MESHLLM_API_KEY"] = settings.api_key
    # Before a node is started for it: files of the person's own may be wrong.
    preferences = read_preferences(settings.theme, settings.keys, settings.mouse)
    configured = bool(arguments or flags) or (settings.file or paths.config_file).exists()
    first_run = not configured and not paths.welcome_marker.exists()
    if found is not None:
        return _show(paths, preferences, found.console_url, found.api_url, first_run=first_run)
    return _start_and_show(paths, settings, preferences, arguments, first_run=first_run)


def has_screen() -> bool:
    """Whether a dashboard can be drawn: a terminal on both sides that can move its cursor, or a browser."""
    if os.environ.get("TEXTUAL_DRIVER") == BROWSER_DRIVER:
        return True
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _start_plain(paths: Paths, settings: Settings, arguments: Sequence[str]) -> NodeRecord:
    _check_ports(settings)
    say("Starting a node in the background; `meshllm stop` ends it.")
    return wait_for_node(paths, start_node(paths, arguments))


def _start_and_show(
    paths: Paths, settings: Settings, preferences: Preferences, arguments: Sequence[str], *, first_run: bool
) -> int:
    """Paints while the node still starts. Ports that are taken are found before that."""
    _check_ports(settings)
    process = start_node(paths, arguments)
    if settings.port and settings.console_port:
        console_url = base_url(settings.console_host, settings.console_port)
        api_url = base_url(settings.host, settings.port)
    else:
        record = wait_for_node(paths, process)
        console_url, api_url = record.console_url, record.api_url
    result = _show(paths, preferences, console_url, api_url, process, first_run=first_run)
    ended = process.poll()
    if ended:
        return report(failure(paths, ended))
    return result


def _show(
    paths: Paths,
    preferences: Preferences,
    console_url: str,
    api_url: str,
    started: "subprocess.Popen[bytes] | None" = None,
    *,
    first_run: bool,
) -> int:
    from meshllm_tui.launch import run

    result = run(
        console_url=console_url,
        api_url=api_url,
        token_file=paths.token_file,
        started_by_us=started is not None,
        ended=(lambda: started.poll() is not None) if started else None,
        decode_picture=_decode_picture,
        scan_camera=_scan_camera,
        chats_file=paths.chats_file,
        welcome_marker=paths.welcome_marker if first_run else None,
        preferences=preferences,
    )
    if result == STOP_NODE:
        from meshllm_core.cli.control import stop_node

        stop_node(paths, console_url)
        say("The node has stopped.")
        return ExitCode.OK
    if result == 0 and find_node(paths) is not None:
        say(f"The node goes on at {api_url}/v1; `meshllm` comes back to it, `meshllm stop` ends it.")
    return result


def _decode_picture(path: Path) -> str:
    """The invite in a picture. Reading pictures is imported only when somebody joins by one."""
    from meshllm_core.cli.picture import read_token_from_picture

    return read_token_from_picture(path)


def _scan_camera(stop: Callable[[], bool]) -> str:
    """The invite before the camera."""
    from meshllm_core.cli.camera import read_token_from_camera

    return read_token_from_camera(stop=stop)


def _check_ports(settings: Settings) -> None:
    """Refuses before anything is drawn: afterwards the reason would be hidden behind the dashboard."""
    wanted = (
        ("--port", settings.host, settings.port),
        ("--console", settings.console_host, settings.console_port),
    )
    for flag, host, port in wanted:
        if not can_bind(host, port):
            raise PortTaken(
                f"Port {port} on {host} is in use or not allowed.",
                hint=f"End the program that has it, or choose another with `meshllm serve {flag} PORT`.",
            )

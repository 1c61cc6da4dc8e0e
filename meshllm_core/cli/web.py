"""`meshllm web`: the dashboard in a browser, on this machine, behind a token."""

import asyncio
import contextlib
import secrets
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.options import AsJson
from meshllm_core.cli.output import emit, emit_json
from meshllm_core.config import base_url
from meshllm_core.errors import ConfigError, ExitCode, NodeError, PortTaken
from meshllm_core.paths import default_paths

if TYPE_CHECKING:
    from meshllm_tui.web.server import Served

DEFAULT_PORT = 3132
LOOPBACK = ("127.0.0.1", "localhost", "::1")

Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any that is free.")]
Host = Annotated[
    str, typer.Option(help="Address to listen on; elsewhere than on loopback it needs --public-url.")
]
PublicUrl = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="Address under which the browser reaches it, through a proxy with TLS or a forwarded port.",
    ),
]


def web(
    port: Port = DEFAULT_PORT, host: Host = "127.0.0.1", public_url: PublicUrl = "", as_json: AsJson = False
) -> None:
    """Serve the dashboard to a browser until Ctrl+C; prints the address, which has a token in it.

    Whoever has the address can do all that you can. Each tab is a dashboard of its own, of the same node.
    """
    public = _checked(public_url)
    if host not in LOOPBACK:
        if not public:
            raise ConfigError(
                f"On {host} the browser's address is not known.",
                hint="Give it: `meshllm web --host HOST --public-url https://name:port`.",
                param="--public-url",
            )
        if public.startswith("http:"):
            say(
                "warning: without TLS others on the network can read the token, and then do all that you can."
            )
    raise typer.Exit(asyncio.run(_run(host, port, public, as_json=as_json)))


def _checked(url: str) -> str:
    """Scheme, host and port of a public URL; empty stays empty. Raises ConfigError."""
    if not url:
        return ""
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        named = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        if named and parts.username is None and parts.path in ("", "/") and not parts.query:
            return f"{parts.scheme}://{parts.netloc}"
    raise ConfigError(
        f"{url!r} is no address of a browser's.",
        hint="Write scheme, host and port only: https://name:8443.",
        param="--public-url",
    )


async def _run(host: str, port: int, public: str, *, as_json: bool) -> int:
    from aiohttp import web as aiohttp_web

    from meshllm_tui.web.server import STOP_SECONDS, Served, WebDashboard

    listening = _listen(host, port)
    with listening:
        bound = listening.getsockname()[1]
        own = [base_url(name, bound) for name in dict.fromkeys((host, "localhost", "127.0.0.1"))]
        urls = (public, *own) if public else tuple(own)
        log = default_paths().logs / "web-output.log"
        served = Served(_command(log), urls, secrets.token_urlsafe(32))
        application = WebDashboard(served).application()
        runner = aiohttp_web.AppRunner(application, access_log=None, shutdown_timeout=STOP_SECONDS)
        await runner.setup()
        try:
            await aiohttp_web.SockSite(runner, listening).start()
            ended = _ended()
            _tell(served, log, as_json=as_json)
            await ended.wait()
        finally:
            await runner.cleanup()
    return ExitCode.OK


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise PortTaken(
            f"Port {port} on {host} cannot be listened on: {error.strerror or error}.",
            hint="End the program that has it, or take another: `meshllm web --port PORT`.",
        ) from None
    return listening


def _command(log: Path) -> str:
    """For the shell: shows the dashboard; what it says besides goes to a file, from this start on."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        log.write_bytes(b"")
    except OSError as error:
        raise NodeError(
            f"Cannot write {log}: {error.strerror}.", hint="Free some space, or set MESHLLM_HOME."
        ) from None
    command = [sys.executable, "-m", "meshllm_core.cli.main"]
    if sys.platform == "win32":
        return f'{subprocess.list2cmdline(command)} 2>>"{log}"'
    # Without a shell between them, ending the process ends the dashboard.
    return f"exec {shlex.join(command)} 2>>{shlex.quote(str(log))}"


def _tell(served: "Served", log: Path, *, as_json: bool) -> None:
    url = f"{served.urls[0]}/?token={served.token}"
    if as_json:
        emit_json({"url": url, "log": str(log)})
    else:
        emit(url)
        say("Open this address in a browser; whoever has it can do all that you can. Ctrl+C ends it.")
        say(f"Where a tab ends at once, {log} says why.")


def _ended() -> asyncio.Event:
    """Set by SIGINT or SIGTERM."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, ended.set)
    return ended

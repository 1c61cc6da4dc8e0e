"""The node process: what starts in which order, and what ends in which order."""

import asyncio
import contextlib
import logging
import os
import platform
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from meshllm_core import __version__
from meshllm_core.api.record import NodeRecord, find_node, remove_record, write_record
from meshllm_core.api.token import ensure_token
from meshllm_core.config import Settings, base_url, is_loopback
from meshllm_core.errors import ExitCode, NodeAlreadyRunning, NodeError, StorageError
from meshllm_core.log import start_logging
from meshllm_core.node.servers import HttpServer, listen
from meshllm_core.paths import Paths
from meshllm_core.state import events as ev
from meshllm_core.state.reduce_mesh import MeshEvent, fold_mesh, mesh_words
from meshllm_core.state.snapshot import NodeSnapshot

if TYPE_CHECKING:
    from meshllm_core.models.hardware import Hardware

MEMORY_SECONDS = 5.0
MEMORY_STEP = 64 << 20
"""Bytes; smaller changes of free memory are not told."""

log = logging.getLogger(__name__)

Talk = Callable[[str], None]
Announce = Callable[[NodeRecord], None]


def run(settings: Settings, paths: Paths, talk: Talk, announce: Announce | None = None) -> ExitCode:
    """Serve until SIGINT, SIGTERM or the action `stop`.

    `talk` gets lines for a person; `announce` gets the node's record as soon as both servers answer.

    Raises MeshError when the node cannot start.
    """
    session = start_logging(paths, level=settings.log_level, secrets=(settings.api_key, settings.join))
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_serve(settings, paths, talk, announce))
    finally:
        session.close()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop


async def _serve(settings: Settings, paths: Paths, talk: Talk, announce: Announce | None) -> ExitCode:
    _refuse_second_node(paths)
    api_socket = listen(settings.host, settings.port, "--port")
    try:
        console_socket = listen(settings.console_host, settings.console_port, "--console")
    except NodeError:
        api_socket.close()
        raise
    settings_urls = (
        base_url(settings.host, api_socket.getsockname()[1]),
        base_url(settings.console_host, console_socket.getsockname()[1]),
    )
    node = _Node(settings, paths, settings_urls)
    node.take_signals()
    api, console = HttpServer(node.api_app, api_socket), HttpServer(node.console_app, console_socket)
    await asyncio.gather(api.start(), console.start())
    record = _record(paths, settings_urls)
    node.started()
    if announce is not None:
        announce(record)
    talk(f"OpenAI endpoint  {settings_urls[0]}/v1")
    talk(f"management API   {settings_urls[1]}")
    helpers = [
        asyncio.create_task(_speak(node.store, talk), name="speak"),
        asyncio.create_task(_watch_memory(node.store, node.mesh.memory_lent), name="memory"),
    ]
    try:
        await node.stopped.wait()
    finally:
        node.stopping()
        await asyncio.gather(api.stop(), node.mesh.stop(), node.backend.close())
        await asyncio.gather(node.hosts.close(), node.downloads.close())
        node.store.close()
        await console.stop()
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, node.detecting, return_exceptions=True)
        remove_record(paths, os.getpid())
    return ExitCode.OK


def _refuse_second_node(paths: Paths) -> None:
    running = find_node(paths)
    if running is not None:
        raise NodeAlreadyRunning(
            f"A node of this user runs already (process {running.pid}, {running.api_url}).",
            hint="Use `meshllm load MODEL` to add a model to it, or `meshllm stop` to end it.",
        )


def _record(paths: Paths, urls: tuple[str, str]) -> NodeRecord:
    record = NodeRecord(pid=os.getpid(), api_url=urls[0], console_url=urls[1], started_at=time.time())
    try:
        write_record(paths, record)
    except OSError as error:
        raise StorageError(
            f"Cannot write {paths.node_file}: {error.strerror}.",
            hint="Free some space, or set MESHLLM_HOME to a folder you can write to.",
        ) from error
    return record


class _Node:
    """The parts of a node, wired."""

    def __init__(self, settings: Settings, paths: Paths, urls: tuple[str, str]) -> None:
        # Heavy modules are imported here and not at the top: `meshllm status` and the dashboard
        # import this package's neighbours and must not wait for FastAPI.
        from meshllm_core.api.guard import ANY_HOST, LOOPBACK_HOSTS
        from meshllm_core.api.manage import build_management_app
        from meshllm_core.api.openai.app import build_openai_app
        from meshllm_core.api.openai.settings import OpenAISettings
        from meshllm_core.models.cache import Cache
        from meshllm_core.models.hub import Hub
        from meshllm_core.models.resolve import resolve
        from meshllm_core.node.actions import NodeBackend
        from meshllm_core.node.answers import NodeParts
        from meshllm_core.node.downloads import Downloads
        from meshllm_core.node.hosts import Hosts
        from meshllm_core.node.mesh import NodeMesh
        from meshllm_core.node.store import EventStore
        from meshllm_core.serve.service import InferenceService

        self.settings = settings
        self.urls = urls
        self.stopped = asyncio.Event()
        self.store = EventStore()
        self.detecting = asyncio.create_task(self._detect(), name="hardware")
        hub = Hub(endpoint=settings.hub_endpoint or None)
        self.downloads = Downloads(Cache(paths.models), hub, self.store.append)
        self.hosts = Hosts(
            settings=settings,
            paths=paths,
            append=self.store.append,
            append_soon=self.store.append_soon,
            resolve=partial(resolve, paths=paths, hub=hub),
            hardware=self.detecting,
        )
        self.name = settings.node_name or platform.node() or "this machine"
        self.mesh = NodeMesh(settings, paths, self.store, self.name)
        self.service = InferenceService(
            hosted=self.hosts.hosted, append=self.store.append, peers=self.mesh, name=self.name
        )
        self.mesh.inference = self.service
        self.mesh.hosts = self.hosts
        self.hosts.mesh = self.mesh.splits
        limits = OpenAISettings(
            max_body_bytes=settings.max_body_mib << 20,
            keep_alive_seconds=settings.keep_alive_seconds,
            api_key=settings.api_key,
            allowed_hosts=LOOPBACK_HOSTS if is_loopback(settings.host) else frozenset({ANY_HOST}),
        )
        self.api_app = build_openai_app(self.service, limits)
        parts = NodeParts(settings, paths, self.store, self.hosts, self.mesh, self.downloads)
        self.backend = NodeBackend(parts, self.stop)
        self.console_app = build_management_app(
            self.backend, token=ensure_token(paths.token_file), console_host=settings.console_host
        )
        self.reason = ""

    def take_signals(self) -> None:
        """SIGINT and SIGTERM begin an orderly stop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # Windows
                loop.add_signal_handler(number, self.stop, number.name)

    def stop(self, reason: str) -> None:
        """Begin to stop; safe to call more than once."""
        self.reason = self.reason or reason
        self.stopped.set()

    def started(self) -> None:
        """The servers answer: say so and begin to load."""
        self.store.append(
            ev.NodeStarted(
                at=time.time(),
                name=self.name,
                version=__version__,
                pid=os.getpid(),
                api_url=self.urls[0],
                console_url=self.urls[1],
            )
        )
        for warning in self.settings.warnings:
            self.store.append(ev.NoticeLogged(at=time.time(), level="warning", source="config", text=warning))
        if not self.settings.client:
            for ref in dict.fromkeys(self.settings.models):
                self.hosts.load(ref, patient=True)
        self.mesh.start()

    def stopping(self) -> None:
        """No new requests from now on."""
        self.service.accepting = False
        self.store.append(ev.NodeStopping(at=time.time(), reason=self.reason or "an error"))

    async def _detect(self) -> "Hardware":
        from meshllm_core.models.hardware import detect
        from meshllm_core.node.devices import list_devices

        hardware = await asyncio.to_thread(detect, list_devices)
        self.store.append(hardware.event(time.time()))
        if hardware.problem:
            self.store.append(
                ev.NoticeLogged(at=time.time(), level="error", source="hardware", text=hardware.problem)
            )
        return hardware


async def _watch_memory(store: Any, lent: Callable[[], int]) -> None:
    """Keep the snapshot's free and lent memory true, without an event for every small change."""
    from meshllm_core.models.memory import read_memory

    while not store.closed:
        free, usable = read_memory().available, lent()
        known = store.snapshot
        if max(abs(free - known.memory_free), abs(usable - known.memory_lent)) > MEMORY_STEP:
            store.append(ev.MemoryMeasured(at=time.time(), memory_free=free, memory_lent=usable))
        await asyncio.sleep(MEMORY_SECONDS)


def _words(event: object) -> tuple[int, list[str]]:
    """What a person should know of an event, with its level in the log."""
    match event:
        case ev.ModelReady(model=model, context=context, lanes=lanes):
            return logging.INFO, [f"{model} is ready (context {context}, {lanes} lanes)"]
        case ev.ModelFailed(model=model, message=message, hint=hint):
            return logging.ERROR, [f"{model} failed: {message} {hint}".strip()]
        case ev.EngineExited(model=model, detail=detail, log_tail=tail):
            return logging.ERROR, [f"{model}: {detail}", *(f"  | {line}" for line in tail)]
        case ev.NoticeLogged(level=level, source=source, text=text):
            return logging.getLevelNamesMapping()[level.upper()], [f"{source}: {text}"]
    return logging.NOTSET, []


def _mesh_words(before: NodeSnapshot, event: MeshEvent) -> tuple[int, list[str]]:
    words = mesh_words(before, event)
    if words is None:
        return logging.NOTSET, []
    return logging.getLevelNamesMapping()[words[0].upper()], [f"mesh: {words[1]}"]


async def _speak(store: Any, talk: Talk) -> None:
    """Say what a person at a terminal without a dashboard should know, and who reads the log later."""
    seen, mesh, last = 0, NodeSnapshot(), [""]
    while not store.closed:
        await store.wait_after(seen, 60.0)
        for logged in store.events_after(seen) or ():
            level, lines = _words(logged.event)
            if isinstance(logged.event, MeshEvent):
                level, lines = _mesh_words(mesh, logged.event)
                mesh = fold_mesh(mesh, logged.event)
            if lines == last:
                # A join that is tried again and fails as before.
                continue
            last = lines or last
            for line in lines:
                talk(line)
                log.log(level, "%s", line)
        seen = store.snapshot.sequence

"""A node that plays the mesh's actions, and a terminal that commands run on."""

import asyncio
import contextlib
import os
import subprocess

from meshllm_core.errors import MeshError
from meshllm_core.node.store import EventStore
from meshllm_core.state import mesh_events as ev
from tests.api.manage.conftest import Node
from tests.cli.conftest import COMMAND
from tests.discovery.test_token import TOKEN

OWN = "ab" * 32
OTHER = "cd" * 32
MESH = "ef" * 32
ESCAPE = "\x1b[31m"


class Mesh:
    """Plays the mesh's actions: remembers what was asked, and tells in events what a node would."""

    def __init__(self, node: Node) -> None:
        self.store: EventStore = node.backend.store
        self.asked: list[tuple[str, dict[str, object]]] = []
        self.ends: ev.JoinEnded | None = ev.JoinEnded(at=9.0, joined=True, message="This node is in den.")
        self.failing: ev.JoinStep | None = None
        self.error: MeshError | None = None
        self.gone = ["attic", "shed"]
        node.backend.act = self.act  # type: ignore[method-assign]

    async def act(self, name: str, arguments: dict[str, object]) -> dict[str, object]:
        self.asked.append((name, arguments))
        if self.error is not None:
            raise self.error
        if name == "invite":
            return {"token": TOKEN, "id": "0011223344", "role": "host", "uses": 1, "expires_at": 1.8e9}
        if name == "join":
            self.joining = asyncio.create_task(self._join())
            return {"status": "joining"}
        if name == "revoke":
            return {"revoked": self.gone, "done": bool(arguments.get("confirm"))}
        return {"status": "left"}

    async def _join(self) -> None:
        self.store.append(ev.JoinStarted(at=8.0 + len(self.asked), how="by invite"))
        for step in ev.JOIN_STEPS:
            status: ev.StepStatus = "failed" if step == self.failing else "passed"
            self.store.append(ev.JoinStepped(at=8.0, step=step, status="running"))
            await asyncio.sleep(0.01)
            self.store.append(ev.JoinStepped(at=8.0, step=step, status=status, detail=f"{ESCAPE}{step} seen"))
            if status == "failed":
                break
        if self.ends is not None:
            self.store.append(self.ends)

    def enter(self) -> None:
        """The node becomes a member of a mesh with another one, and has made an invite."""
        self.store.append(ev.IdentityLoaded(at=1.0, node=OWN, storage="file"))
        self.store.append(
            ev.MeshEntered(
                at=2.0,
                mesh=MESH,
                name="den",
                role="host",
                founder=True,
                may_invite=True,
                port=4400,
                discovery="mdns",
            )
        )
        self.store.append(ev.PeerUpdated(at=3.0, peer=_peer()))
        row = ev.InviteRow(
            id="0011223344",
            role="client",
            uses=0,
            used=1,
            created_at=1.0,
            expires_at=0.0,
            created_by=OWN,
            state="open",
            used_by=(f"sh{ESCAPE}ed",),
        )
        self.store.append(ev.InvitesChanged(at=4.0, invites=(row,)))


def _peer() -> ev.PeerRow:
    return ev.PeerRow(
        node=OTHER,
        name=f"sh{ESCAPE}ed",
        status="suspect",
        role="client",
        since=1.0,
        version="0.2.0",
        path="tls",
        rtt_ms=1.25,
        reach="outgoing_only",
        detail="Its clock is two hours behind.",
        owner="verified 3fa9",
    )


def on_terminal(arguments: tuple[str, ...], lines: int, environ: dict[str, str]) -> str:
    """What a terminal of 80 columns gets to show from a command."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, 80, 0, 0))
    program = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "PYTHONIOENCODING": "utf-8", **environ},
    )
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):
        while piece := os.read(ours, 65_536):
            shown += piece
    os.close(ours)
    program.wait(30)
    return shown.decode()

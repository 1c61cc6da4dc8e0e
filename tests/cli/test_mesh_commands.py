"""The commands around invites and members, against a node that the test plays."""

import asyncio
import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from meshllm_core.api.schema import InviteAnswer
from meshllm_core.api.schema_mesh import LONGEST_INVITE
from meshllm_core.cli.camera import read_token_from_camera
from meshllm_core.cli.invite import span, words
from meshllm_core.cli.picture import read_token_from_picture
from meshllm_core.discovery import qr
from meshllm_core.discovery.token import compact, encode
from meshllm_core.errors import ConfigError, ExitCode, MeshError, NotPermitted
from meshllm_core.node.store import EventStore
from meshllm_core.paths import Paths
from meshllm_core.state import mesh_events as ev
from meshllm_core.state.snapshot import JoinView
from tests.api.manage.conftest import Node
from tests.cli.conftest import COMMAND, Result, command, playing
from tests.discovery.test_token import INVITE, TOKEN

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
            return {"revoked": ["attic", "shed"], "done": bool(arguments.get("confirm"))}
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


@pytest.fixture
async def mesh(paths: Paths) -> AsyncIterator[Mesh]:
    async with playing(paths) as node:
        yield Mesh(node)


# invite ----------------------------------------------------------------------------------------------


async def test_an_invite_goes_to_stdout_and_the_words_to_stderr(mesh: Mesh, paths: Paths) -> None:
    result = await command("invite", "--uses", "3", "--expires", "2h", "--role", "client", "--may-invite")
    assert mesh.asked == [
        ("invite", {"uses": 3, "expires_seconds": 7200.0, "role": "client", "may_invite": True})
    ]
    assert (result.code, result.out) == (0, TOKEN + "\n")
    assert "192.168.1.20:9338" in result.err
    assert "meshllm join" in result.err
    assert "meshllm revoke 0011223344" in result.err
    logs = [file.read_text() for file in paths.logs.glob("*")] if paths.logs.is_dir() else []
    assert not any(TOKEN in text for text in logs)


async def test_what_is_not_said_is_chosen_by_the_node(mesh: Mesh) -> None:
    document = (await command("invite", "--json")).document
    assert mesh.asked == [("invite", {})]
    assert document == {
        "token": TOKEN,
        "id": "0011223344",
        "role": "host",
        "uses": 1,
        "expires_at": 1.8e9,
    }


async def test_the_picture_holds_the_invite_and_is_private(mesh: Mesh, tmp_path: Path) -> None:
    picture = tmp_path / "invite.png"
    result = await command("invite", "--png", str(picture))
    assert result.code == 0
    assert read_token_from_picture(picture) == compact(TOKEN)
    assert stat.S_IMODE(picture.stat().st_mode) == 0o600


async def test_no_invite_is_made_for_a_picture_that_cannot_be_written(mesh: Mesh, tmp_path: Path) -> None:
    result = await command("invite", "--png", str(tmp_path / "none" / "x.png"))
    assert (result.code, result.out, mesh.asked) == (ExitCode.USAGE, "", [])


async def test_the_code_is_drawn_into_a_pipe_only_if_asked_for(mesh: Mesh) -> None:
    result = await command("invite", "--qr")
    lines = result.out.splitlines()
    assert lines[0] == TOKEN
    assert lines[1:] == qr.half_blocks(qr.matrix(compact(TOKEN)), quiet=qr.QUIET)


@pytest.mark.parametrize(
    ("lines", "colour", "border"), [(24, True, 3), (40, True, 4), (23, False, 2), (22, False, None)]
)
async def test_on_a_terminal_the_code_is_whole_or_not_drawn(
    mesh: Mesh, paths: Paths, lines: int, colour: bool, border: int | None
) -> None:
    environ = {} if colour else {"NO_COLOR": "1"}
    out = await asyncio.to_thread(_on_terminal, ("invite", "--qr"), lines, environ)
    code = qr.matrix(compact(TOKEN))
    if border is None:
        assert "too small" in out
        assert "█" not in out
    else:
        drawn = qr.ansi_blocks(code, quiet=border) if colour else qr.half_blocks(code, quiet=border)
        assert "\n".join(drawn) in out.replace("\r\n", "\n")


def _on_terminal(arguments: tuple[str, ...], lines: int, environ: dict[str, str]) -> str:
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


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1800), ("1h", 3600), ("2 D", 172_800), ("1w", 604_800), ("never", LONGEST_INVITE)],
)
def test_spans(text: str, seconds: int) -> None:
    assert span(text) == seconds


@pytest.mark.parametrize("text", ["0s", "1", "h", "-1h", "1.5h", "999999999w", "soon"])
def test_spans_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="--expires"):
        span(text)


def test_words_say_what_an_invite_allows() -> None:
    answer = InviteAnswer(token=TOKEN, id="x", role="client", uses=0, expires_at=0)
    assert "any number of machines, for ever, as a client, which only asks and invite others" in words(
        answer, may_invite=True
    )
    lonely = encode(type(INVITE)(INVITE.node, INVITE.secret, INVITE.mesh))
    text = words(InviteAnswer(token=lonely, id="x", role="host", uses=1, expires_at=1.8e9), may_invite=False)
    assert "one machine, until" in text
    assert "no address that others can use" in text


# join ------------------------------------------------------------------------------------------------


async def test_joining_tells_each_line_and_ends_well(mesh: Mesh) -> None:
    result = await command("join", TOKEN.lower())
    assert mesh.asked == [("join", {"token": TOKEN})]
    assert (result.code, result.out) == (0, "This node is in den.\n")
    assert result.err.splitlines()[1] == "✓ network interface: \ufffd[31minterface seen"
    assert len(result.err.splitlines()) == len(ev.JOIN_STEPS)
    assert TOKEN not in result.out + result.err


async def test_a_join_that_fails_says_why_and_what_next(mesh: Mesh) -> None:
    mesh.failing = "address"
    mesh.ends = ev.JoinEnded(at=9.0, joined=False, message="Nobody answers at 10.0.0.9.", hint="Try Wi-Fi.")
    result = await command("join", TOKEN)
    assert (result.code, result.out) == (ExitCode.MESH, "")
    assert "✗ address: " in result.err
    assert "error: Nobody answers at 10.0.0.9.\n  Try Wi-Fi.\n" in result.err
    assert "admission" not in result.err


async def test_the_second_join_is_not_taken_for_the_first(mesh: Mesh) -> None:
    mesh.store.append(ev.JoinStarted(at=1.0, how="by invite"))
    mesh.store.append(ev.JoinEnded(at=2.0, joined=False, message="An old failure."))
    result = await command("join", TOKEN, "--json")
    assert (result.code, result.document["state"]) == (0, "joined")
    assert [line["step"] for line in result.document["lines"]] == list(ev.JOIN_STEPS)


async def test_a_failed_join_is_a_document_too(mesh: Mesh) -> None:
    mesh.ends = ev.JoinEnded(at=9.0, joined=False, message="no")
    result = await command("join", TOKEN, "--json")
    assert (result.code, result.document["state"], result.document["message"]) == (8, "failed", "no")
    assert set(result.document) <= set(JoinView.__struct_fields__)


async def test_what_the_node_refuses_at_once_is_told(mesh: Mesh) -> None:
    mesh.error = NotPermitted("This node is in a mesh already.")
    result = await command("join", TOKEN)
    assert (result.code, result.out) == (ExitCode.MESH, "")
    assert "in a mesh already" in result.err


async def test_a_terminal_sees_what_is_being_tried(mesh: Mesh) -> None:
    shown = await asyncio.to_thread(_on_terminal, ("join", TOKEN), 24, {})
    assert "\r\x1b[K… clock\r\x1b[K✓ clock: " in shown
    assert shown.endswith("This node is in den.\r\n")


def test_without_a_node_it_says_how_to_start_one(meshllm: Callable[..., Result]) -> None:
    result = meshllm("join", TOKEN)
    assert (result.code, result.out) == (ExitCode.NODE, "")
    assert "meshllm serve --join" in result.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "What is to be joined?"),
        ((TOKEN, "--camera"), "no invite beside it"),
        (("nowhere/photo.png",), "There is no file nowhere/photo.png"),
        (("hello",), "This is not an invite"),
        ((TOKEN[:-4],), "cut off"),
        ((TOKEN.replace("4", "5"),), "mistyped"),
        (("-",), "standard input: it is empty"),
    ],
)
def test_bad_invites_need_no_node_to_be_refused(
    meshllm: Callable[..., Result], arguments: tuple[str, ...], said: str
) -> None:
    result = meshllm("join", *arguments)
    assert (result.out, said in result.err) == ("", True), result.err
    assert result.code in (ExitCode.USAGE, ExitCode.MESH)


async def test_the_invite_comes_from_a_file_a_picture_or_stdin(mesh: Mesh, tmp_path: Path) -> None:
    code = qr.matrix(compact(TOKEN))
    files = {
        "plain.txt": f"Join with:\n{TOKEN}\n".encode(),
        "powershell": TOKEN.encode("utf-16"),
        "photo.png": qr.png(code),
        "no-name": qr.png(code, 3),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        assert (await command("join", str(tmp_path / name))).code == 0
    assert (await command("join", "-", stdin=TOKEN)).code == 0
    assert (await command("join", *TOKEN.replace("-", " ").split())).code == 0
    assert mesh.asked == [("join", {"token": TOKEN})] * 6


# members, invites, revoke, leave ---------------------------------------------------------------------


async def test_members_are_listed_with_how_they_are_reached(mesh: Mesh) -> None:
    mesh.enter()
    result = await command("members")
    heads, own, other, _, detail = result.out.splitlines()
    assert heads.split()[:3] == ["NAME", "ID", "STATUS"]
    assert own.startswith("attic (this node)  ababababab  there")
    assert "tiny" in own
    for word in ("sh\ufffd[31med", "cdcdcdcdcd", "does not answer", "client", "1.2 ms", "tls", "0.2.0"):
        assert word in other
    assert "it reaches us only" in other
    assert "verified 3fa9" in other
    assert detail == "sh\ufffd[31med: Its clock is two hours behind."
    document = (await command("members", "--json")).document
    assert (document["mesh"]["name"], document["node"], document["peers"][0]["node"]) == ("den", OWN, OTHER)


async def test_invites_are_listed(mesh: Mesh) -> None:
    mesh.enter()
    line = (await command("invites")).out.splitlines()[1]
    assert line.split() == [
        *("0011223344", "open", "client", "1", "of", "any", "number", "never", "this", "node"),
        "sh\ufffd[31med",
    ]
    assert (await command("invites", "--json")).document["invites"][0]["id"] == "0011223344"


@pytest.mark.parametrize("arguments", [("members",), ("invites",), ("revoke", "abcdef"), ("leave", "--yes")])
async def test_a_node_by_itself_has_none_of_it(mesh: Mesh, arguments: tuple[str, ...]) -> None:
    result = await command(*arguments, "--json")
    assert (result.code, result.out, mesh.asked) == (ExitCode.MESH, "", [])
    assert "meshllm invite" in result.err


async def test_revoking_asks_with_the_list_of_who_goes(mesh: Mesh) -> None:
    mesh.enter()
    refused = await command("revoke", "cdcdcd", stdin="n\n")
    assert (refused.code, refused.out) == (ExitCode.INTERRUPTED, "")
    assert "attic, shed" in refused.err
    assert mesh.asked == [("revoke", {"target": "cdcdcd"})]
    agreed = await command("revoke", "cdcdcd", stdin="y\n")
    assert (agreed.code, agreed.out) == (0, "Revoked: attic, shed.\n")
    assert mesh.asked[-1] == ("revoke", {"target": "cdcdcd", "confirm": True})


async def test_a_member_may_be_named(mesh: Mesh) -> None:
    mesh.enter()
    result = await command("revoke", f"SH{ESCAPE}ed", "--yes", "--json")
    assert result.document == {"revoked": ["attic", "shed"], "done": True}
    assert mesh.asked == [("revoke", {"target": OTHER, "confirm": True})]
    mesh.store.append(ev.PeerUpdated(at=5.0, peer=_peer_named_alike()))
    several = await command("revoke", f"sh{ESCAPE}ed", "--yes")
    assert (several.code, "2 members" in several.err) == (ExitCode.USAGE, True)


def _peer_named_alike() -> ev.PeerRow:
    return ev.PeerRow(node="12" * 32, name=f"sh{ESCAPE}ed", status="alive", role="host", since=1.0)


async def test_leaving_asks_and_says_what_it_means(mesh: Mesh) -> None:
    mesh.enter()
    nobody = await command("leave")
    assert (nobody.code, nobody.out, mesh.asked) == (ExitCode.USAGE, "", [])
    assert "--yes" in nobody.err
    assert "This node founded it" in nobody.err
    assert (await command("leave", stdin="yes\n")).out == "This node has left the mesh.\n"
    assert mesh.asked == [("leave", {})]


# camera ----------------------------------------------------------------------------------------------


def test_without_opencv_the_camera_says_how_to_get_it() -> None:
    if "cv2" in sys.modules:
        pytest.skip("OpenCV is here")
    with pytest.raises(ConfigError, match="OpenCV") as caught:
        read_token_from_camera()
    assert "opencv-python-headless" in caught.value.hint

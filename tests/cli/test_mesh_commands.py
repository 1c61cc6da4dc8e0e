"""`meshllm invite` and `meshllm join`, against a node that the test plays."""

import asyncio
import stat
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from meshllm_core.api.schema import InviteAnswer
from meshllm_core.api.schema_mesh import LONGEST_INVITE
from meshllm_core.cli.camera import read_token_from_camera
from meshllm_core.cli.invite import code_lines, span, words
from meshllm_core.cli.picture import read_token_from_picture
from meshllm_core.discovery import qr
from meshllm_core.discovery.token import compact, encode, fitting
from meshllm_core.errors import ConfigError, ExitCode, NotPermitted
from meshllm_core.paths import Paths
from meshllm_core.state import mesh_events as ev
from meshllm_core.state.snapshot import JoinView
from tests.cli.conftest import Result, command, playing
from tests.cli.mesh_stub import Mesh, on_terminal
from tests.discovery.test_token import INVITE, TOKEN


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
    ("lines", "colour", "border"), [(24, True, 3), (40, True, 4), (22, False, 2), (21, False, None)]
)
async def test_on_a_terminal_the_code_is_whole_or_not_drawn(
    mesh: Mesh, paths: Paths, lines: int, colour: bool, border: int | None
) -> None:
    environ = {} if colour else {"NO_COLOR": "1"}
    out = await asyncio.to_thread(on_terminal, ("invite", "--qr"), lines, environ)
    code = qr.matrix(compact(TOKEN))
    if border is None:
        assert "too small" in out
        assert "█" not in out
    else:
        drawn = qr.ansi_blocks(code, quiet=border) if colour else qr.half_blocks(code, quiet=border)
        assert "\n".join(drawn) in out.replace("\r\n", "\n")


def test_the_largest_code_fits_80_by_24(monkeypatch: pytest.MonkeyPatch) -> None:
    places = fitting([("10.0.0.2", 9338), ("fd00::2", 9338), ("192.168.1.2", 9338)])
    token = encode(replace(INVITE, addresses=places))
    monkeypatch.setattr("meshllm_core.cli.invite.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    assert len(places) == 3
    assert len(code_lines(token, None)) == 23


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
    assert "any number of machines, for ever, to ask, not to compute; who joins may invite others" in words(
        answer, may_invite=True
    )
    lonely = encode(replace(INVITE, addresses=()))
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
    shown = await asyncio.to_thread(on_terminal, ("join", TOKEN), 24, {})
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
        (("/",), "/ is a folder"),
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


# camera ----------------------------------------------------------------------------------------------


def test_without_opencv_the_camera_says_how_to_get_it() -> None:
    if "cv2" in sys.modules:
        pytest.skip("OpenCV is here")
    with pytest.raises(ConfigError, match="OpenCV") as caught:
        read_token_from_camera()
    assert "opencv-python-headless" in caught.value.hint

"""The join checklist, the invites and what the join box reads, in words."""

import os
from pathlib import Path

import msgspec
import pytest

from meshllm_core.api.schema_mesh import InviteAnswer
from meshllm_core.errors import TokenInvalid
from meshllm_core.state import mesh_events as mesh
from meshllm_core.state.snapshot import JoinView
from meshllm_tui.cleaning import cells
from meshllm_tui.invite_page import code_of, is_over, page, save_picture, too_small
from meshllm_tui.join_source import BOX_LIMIT, FILE_LIMIT, token_from
from meshllm_tui.join_words import (
    STEP_STATES,
    box_lines,
    checklist,
    countdown,
    ending,
    invite_lines,
    token_groups,
)
from meshllm_tui.present import NodeView, plain
from tests.tui.mesh_samples import DAY, TOKEN, invite, joining, meshed
from tests.tui.samples import START, fold

NOW = START + 200.0
MADE = InviteAnswer(token=TOKEN, id="3f9a12bc04", role="host", uses=1, expires_at=START + DAY)


def view_of(upto: int, failed: str = "", *then: mesh.JoinEnded) -> JoinView:
    view = fold(*joining(upto, failed), *then).join
    assert view is not None
    return view


def test_the_checklist_has_a_line_for_each_step() -> None:
    lines = plain(checklist(view_of(2, "192.168.1.30:9440 does not answer"), 72)).splitlines()
    assert len(lines) == len(mesh.JOIN_STEPS)
    assert lines[1].split(maxsplit=3) == ["✓", "Network", "passed", "192.168.1.20 on enp3s0"]
    assert lines[2].split(maxsplit=3) == ["✗", "Address", "failed", "192.168.1.30:9440 does not answer"]
    assert [line.split()[2] for line in lines[3:]] == ["skipped"] * 5
    running = plain(checklist(view_of(4), 72)).splitlines()
    assert running[4].split() == ["◌", "Version", "running"]
    assert running[5].split() == ["·", "Clock", "waiting"]


def test_every_step_state_has_its_own_word_and_glyph() -> None:
    assert len({state.word for state in STEP_STATES.values()}) == 5
    assert len({state.glyph for state in STEP_STATES.values()}) == 5


def test_how_it_ended_comes_with_what_to_do() -> None:
    over = mesh.JoinEnded(at=NOW, joined=False, message="The invite ran out.", hint="Ask for a new one.")
    assert plain(ending(view_of(6, "ran out", over), NOW)) == "✗ The invite ran out.\nAsk for a new one."
    well = mesh.JoinEnded(at=NOW, joined=True, message="", hint="")
    assert plain(ending(view_of(8, "", well), NOW)) == "✓ Joined."
    assert "5 s; it goes on when you leave this page" in plain(ending(view_of(3), NOW))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1.0, "over"),
        (0.0, "over"),
        (59.9, "0:59 left"),
        (3599.0, "59:59 left"),
        (3600.0, "1 h left"),
        (90_000.0, "25 h left"),
        (30 * DAY, "30 days left"),
    ],
)
def test_countdown(seconds: float, words: str) -> None:
    assert countdown(seconds) == words


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (invite(), "● open     3f9a12bc04  host    23 h 56 min left  0 of 1 used"),
        (invite(uses=0), "not used yet"),
        (invite(uses=0, used=4), "4 used"),
        (invite(uses=1, used=1, state="used_up", used_by=("cellar",)), "1 of 1 used by cellar"),
        (invite(uses=9, used=5, used_by=tuple("abcde")), "5 of 9 used by a, b, c and 2 more"),
        (invite(state="expired"), "○ expired  3f9a12bc04"),
        (invite(state="revoked"), "✗ revoked  3f9a12bc04"),
        (invite(expires_at=0.0), "no end"),
    ],
)
def test_invites_in_the_list(row: mesh.InviteRow, words: str) -> None:
    text = plain(invite_lines(row, NOW, 100))
    assert words in text
    narrow = invite_lines(row, NOW, 66)
    assert len(narrow) == 2
    assert all(cells(plain([each])) <= 66 for each in narrow)


@pytest.mark.parametrize("width", [8, 28, 33, 60, 400])
def test_the_token_is_shown_in_whole_groups(width: int) -> None:
    lines = list(token_groups(TOKEN, width))
    assert "".join(lines) == TOKEN
    assert all(len(line) <= max(width, 9) for line in lines)
    assert token_from("\n".join(lines)) == TOKEN
    assert list(token_groups("odd", 20)) == ["odd"]


def test_the_page_beside_a_code() -> None:
    text = plain(page(MADE, invite(), NOW, 33))
    for words in (
        "Invite 3f9a12bc04",
        "for 1 machine as host",
        "23 h 56 min left",
        "meshllm join -",
        TOKEN[8:16],
    ):
        assert words in text
    assert "✓ 1 of 3 used by cellar" in plain(
        page(MADE, invite(uses=3, used=1, used_by=("cellar",)), NOW, 33)
    )


@pytest.mark.parametrize(
    ("row", "wall", "words"),
    [
        (invite(state="used_up", used=1, used_by=("cellar",)), NOW, "✓ 1 of 1 used by cellar"),
        (invite(state="revoked"), NOW, "✗ revoked"),
        (None, START + 2 * DAY, "○ expired"),
    ],
)
def test_a_token_that_lets_nobody_in_is_not_shown(
    row: mesh.InviteRow | None, wall: float, words: str
) -> None:
    text = plain(page(MADE, row, wall, 33))
    assert is_over(row, MADE, wall)
    assert words in text
    assert "It lets nobody in any more." in text
    assert "MESHLLM:" not in text


def test_the_code_fits_a_terminal_of_80_by_24() -> None:
    code = code_of(TOKEN)
    assert code.height <= 23
    assert code.width <= 45
    text = plain(too_small(code, 40, 23))
    assert f"The code needs {code.width}×{code.height} characters, here are 40×23." in text
    assert "s saves it as a picture, y copies the token." in text


def test_the_saved_picture_is_the_code_and_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import zxingcpp
    from PIL import Image

    monkeypatch.setenv("HOME", str(tmp_path))
    path = save_picture(TOKEN, "3f9a/../12")
    assert path == tmp_path / "meshllm-invite-3f9a12.png"
    with Image.open(path) as picture:
        (found,) = zxingcpp.read_barcodes(picture.convert("L"))
    assert token_from(found.text) == TOKEN
    if os.name == "posix":
        assert path.stat().st_mode & 0o077 == 0
        link = tmp_path / "meshllm-invite-aa.png"
        link.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(OSError):
            save_picture(TOKEN, "aa")
        assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    "text",
    [
        TOKEN,
        f'  "{TOKEN.lower()}"\r\n',
        "Please join: " + TOKEN.replace("-", "-\n> ") + " thanks",
        TOKEN.replace("-", ""),
    ],
)
def test_tokens_are_taken_as_people_send_them(text: str) -> None:
    assert token_from(text) == TOKEN


def test_files_and_pictures_are_read(tmp_path: Path) -> None:
    file = tmp_path / "invite.txt"
    file.write_text(f"hello\n{TOKEN}\n")
    assert token_from(str(file)) == TOKEN
    assert token_from(f"'{file}' ") == TOKEN
    picture = tmp_path / "photo.PNG"
    picture.write_bytes(b"x")
    seen: list[Path] = []

    def decode(path: Path) -> str:
        seen.append(path)
        return TOKEN

    assert token_from(f"file://{picture}", decode) == TOKEN
    assert seen == [picture]
    with pytest.raises(TokenInvalid, match="meshllm join"):
        token_from(str(picture))


@pytest.mark.parametrize("name", ["/nowhere/at/all", "missing.png", "missing.txt", "~nobody-here/x"])
def test_a_file_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(TokenInvalid, match="There is no file"):
        token_from(name)


def test_files_that_hold_no_invite_are_refused(tmp_path: Path) -> None:
    large = tmp_path / "large.txt"
    large.write_bytes(b"x" * (FILE_LIMIT + 1))
    with pytest.raises(TokenInvalid, match="larger than 16 KiB"):
        token_from(str(large))
    wrong = tmp_path / "wrong.txt"
    wrong.write_bytes(b"\xff\x00nothing")
    with pytest.raises(TokenInvalid):
        token_from(str(wrong))
    with pytest.raises(TokenInvalid):
        token_from("x" * BOX_LIMIT)
    with pytest.raises(TokenInvalid):
        token_from("a\0b")


@pytest.mark.parametrize(("name", "shown"), [("home", "mesh home."), ("", "mesh 1a2b3c4d.")])
def test_the_mesh_that_has_to_be_left_is_named_by_its_id_where_it_has_no_name(name: str, shown: str) -> None:
    known = meshed()
    assert known.mesh is not None
    own = msgspec.structs.replace(known.mesh, name=name, mesh="1a2b3c4d" * 8)
    view = NodeView(snapshot=msgspec.structs.replace(known, mesh=own), link="live")
    assert f"This node is in the {shown}" in plain(box_lines(view))

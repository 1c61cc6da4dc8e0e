"""Joining from the dashboard: the box, the checklist, what to press next."""

from pathlib import Path

import pytest
from textual import events
from textual.widgets import Input

from meshllm_core.errors import JoinFailed, TokenInvalid
from meshllm_core.state import events as ev
from meshllm_core.state import mesh_events as mesh
from meshllm_tui.pages.invite import InvitePage
from meshllm_tui.pages.mesh import MeshPage
from tests.tui.conftest import Screen, dashboard
from tests.tui.mesh_samples import TOKEN, founded, joined, joining, peer
from tests.tui.samples import START, ScriptedClient, bare, fold

FAILED = mesh.JoinEnded(
    at=START + 199, joined=False, message="The invite ran out.", hint="Ask for a new one."
)
JOINED = mesh.JoinEnded(at=START + 199, joined=True, message="This node is in the mesh home.", hint="")


def node(*effects: ev.AnyEvent, before: tuple[ev.AnyEvent, ...] = ()) -> ScriptedClient:
    client = ScriptedClient(state=fold(*before, snapshot=bare()))
    client.effects["join"] = effects
    return client


async def box(screen: Screen) -> None:
    """From any page to the box, or to the checklist of a join that runs."""
    await screen.press("J")
    await screen.until(lambda: isinstance(screen.app.screen, InvitePage) and screen.app.page.active == "join")
    await screen.pilot.pause()


async def put(screen: Screen, text: str) -> None:
    """Open the box and send what is pasted."""
    await box(screen)
    screen.app.post_message(events.Paste(text))
    await screen.pilot.pause()
    await screen.press("enter")


async def test_a_pasted_token_is_joined_and_its_checklist_shown() -> None:
    client = node(*joining(), *founded(), *joined(peer("attic")), JOINED)
    async with dashboard(client) as screen:
        await put(screen, TOKEN.replace("-", "-\n  "))
        await screen.until(lambda: "✓ This node is in the mesh home." in screen.text)
        assert client.acted == [("join", {"token": TOKEN})]
        for words in ("✓ Token", "✓ Network", "✓ Reachability", "admitted by attic as host"):
            assert words in screen.text
        assert TOKEN[8:16] not in screen.text
        await screen.press("enter")
        assert isinstance(screen.app.screen, MeshPage)
        await screen.until(lambda: screen.app.page.active == "mesh")
        assert "attic" in screen.text


async def test_the_checklist_moves_while_it_runs_and_goes_on_in_the_background() -> None:
    client = node(*joining(1))
    async with dashboard(client) as screen:
        await put(screen, TOKEN)
        await screen.until(lambda: "◌ Network" in screen.text)
        assert "it goes on when you leave this page" in screen.text
        await screen.press("1")
        assert isinstance(screen.app.screen, MeshPage)
        client.happen(mesh.JoinStepped(at=START, step="interface", status="passed", detail="eth0"))
        await screen.press("J")
        await screen.until(lambda: "✓ Network" in screen.text)
        client.happen(mesh.JoinStepped(at=START, step="address", status="running"))
        await screen.until(lambda: "◌ Address" in screen.text)
        client.happen(FAILED)
        await screen.until(lambda: "✗ The invite ran out." in screen.text)
        await screen.until(lambda: "n takes another invite" in screen.text)
        assert "r tries the same invite again" in screen.text


async def test_a_join_that_began_elsewhere_is_shown_and_its_invite_not_known() -> None:
    client = node()
    async with dashboard(client) as screen:
        await box(screen)
        for event in joining(1):
            client.happen(event)
        await screen.until(lambda: "◌ Network" in screen.text)
        client.happen(FAILED)
        await screen.until(lambda: "n takes another invite" in screen.text)
        assert "r tries" not in screen.text
        await screen.press("y")
        assert "✓ Token" in screen.copied
        assert "The invite ran out." in screen.copied


async def test_a_failure_names_cause_and_next_step_and_can_be_tried_again() -> None:
    client = node(*joining(6, "it ran out on Friday"), FAILED)
    async with dashboard(client, size=(80, 24)) as screen:
        await put(screen, TOKEN)
        await screen.until(lambda: "✗ The invite ran out." in screen.text)
        for words in ("✗ Admission", "it ran out on Friday", "Ask for a new one.", "skipped"):
            assert words in screen.text
        client.effects["join"] = (*joining(at=START + 198), JOINED)
        await screen.press("r")
        await screen.until(lambda: "✓ This node is in the mesh home." in screen.text)
        assert client.acted == [("join", {"token": TOKEN})] * 2


async def test_another_invite_after_a_failure() -> None:
    client = node(*joining(6, "no"), FAILED)
    async with dashboard(client) as screen:
        await put(screen, TOKEN)
        await screen.until(lambda: "n takes another invite" in screen.text)
        await screen.press("n")
        box = screen.app.screen.query_one(Input)
        assert box.display
        assert box.value == "", "the old token is not left to be seen"


async def test_the_checklist_of_an_earlier_try_is_not_taken_for_this_one() -> None:
    old = (mesh.JoinStarted(at=START + 1, how="by token"), FAILED)
    client = node(before=old)
    async with dashboard(client) as screen:
        await put(screen, TOKEN)
        await screen.until(lambda: "the node begins to join" in screen.text)
        assert "The invite ran out." not in screen.app.screen.query_one("#join-note").render().__str__()
        for event in joining(2):
            client.happen(event)
        await screen.until(lambda: "✓ Network" in screen.text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("   ", "Paste an invite, or name a file that holds one."),
        ("hello", "MESHLLM:"),
        (TOKEN[:-9], "cut off"),
        (TOKEN[:20] + ("A" if TOKEN[20] != "A" else "B") + TOKEN[21:], "group"),
        ("/nowhere/photo.png", "There is no file /nowhere/photo.png."),
    ],
)
async def test_what_is_no_invite_is_told_before_the_node_is_asked(text: str, words: str) -> None:
    async with dashboard(node()) as screen:
        await put(screen, text)
        await screen.until(lambda: words in " ".join(screen.text.split()))
        assert screen.client.acted == []
        assert isinstance(screen.app.screen, InvitePage)


async def test_a_refusal_of_the_node_is_kept_in_the_box() -> None:
    client = node()
    client.refusal = JoinFailed("This node is in the mesh home already.", hint="Leave it first.")
    async with dashboard(client) as screen:
        await put(screen, TOKEN)
        await screen.until(lambda: "is in the mesh home already." in screen.text)
        assert "Leave it first." in screen.text
        assert screen.app.screen.query_one(Input).display


async def test_pictures_are_decoded_by_whoever_started_the_dashboard(tmp_path: Path) -> None:
    picture = tmp_path / "photo.png"
    picture.write_bytes(b"x")
    asked: list[Path] = []

    def decode(path: Path) -> str:
        asked.append(path)
        if len(asked) == 1:
            raise TokenInvalid("There is no code in photo.png.", hint="Take it again, nearer.")
        return TOKEN

    async with dashboard(node(*joining()), decode_picture=decode) as screen:
        await put(screen, str(picture))
        await screen.until(lambda: "There is no code in photo.png." in screen.text)
        await screen.press("enter")
        await screen.until(lambda: bool(screen.client.acted))
        assert screen.client.acted == [("join", {"token": TOKEN})]
        assert asked == [picture, picture]


async def test_the_token_is_in_no_notice_of_the_dashboard() -> None:
    client = node(*joining(6, "no"), FAILED)
    async with dashboard(client) as screen:
        await put(screen, TOKEN)
        await screen.until(lambda: "The invite ran out." in screen.text)
        told = [notice.text for notice in screen.app.session.view().local] + screen.toasts
        assert not [text for text in told if TOKEN[8:16] in text]


async def test_hostile_words_in_the_checklist_break_nothing() -> None:
    long = "\x1b[2J\u202e[red]" * 900
    ended = mesh.JoinEnded(at=START + 199, joined=False, message=long, hint=long)
    async with dashboard(node(*joining(2, long), ended), size=(80, 24)) as screen:
        await put(screen, TOKEN)
        await screen.until(lambda: "failed   [red][red]" in screen.text)
        assert "\x1b" not in screen.text
        assert "\u202e" not in screen.text
        assert len(screen.text.split("\n")) == 24

"""The link to a node: folding, gaps, loss, recovery; with a script and over a real socket."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from meshllm_core.errors import InvalidRequest, MeshError, NodeNotRunning, NotAuthorized
from meshllm_core.ids import ModelId
from meshllm_core.state import events as ev
from meshllm_tui import session as session_module
from meshllm_tui.connect import open_client, read_token
from meshllm_tui.session import NodeClient, Session
from tests.api.manage.conftest import TOKEN, running
from tests.tui.samples import START, ScriptedClient, bare


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "QUIET_SECONDS", 0.1)
    monkeypatch.setattr(session_module, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(session_module, "RETRY_FIRST", 0.01)


@contextlib.asynccontextmanager
async def following(client: NodeClient) -> AsyncIterator[Session]:
    async def open_node() -> NodeClient:
        return client

    session = Session(open_node, lambda: None)
    task = asyncio.create_task(session.run())
    try:
        yield session
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(true: Callable[[], bool]) -> None:
    for _ in range(1000):
        if true():
            return
        await asyncio.sleep(0.005)
    pytest.fail("did not come true")


def notice(text: str) -> ev.NoticeLogged:
    return ev.NoticeLogged(at=START, level="info", source="test", text=text)


def last_notice(session: Session) -> str:
    return session.snapshot.notices[-1].text if session.snapshot and session.snapshot.notices else ""


async def test_events_are_folded_without_asking_again() -> None:
    client = ScriptedClient(state=bare())
    async with following(client) as session:
        await until(lambda: session.link == "live")
        asked = client.snapshots
        for number in range(5):
            client.happen(notice(str(number)))
        await until(lambda: last_notice(session) == "4")
        assert session.snapshot == client.state
        assert client.snapshots <= asked + 1
    assert client.closed


async def test_a_gap_in_the_numbers_asks_for_the_whole() -> None:
    client = ScriptedClient(state=bare())
    async with following(client) as session:
        await until(lambda: session.link == "live")
        client.happen(notice("after the gap"), skip=3)
        await until(lambda: last_notice(session) == "after the gap")
        assert session.snapshot == client.state


async def test_an_event_that_is_known_already_changes_nothing() -> None:
    client = ScriptedClient(state=bare())
    async with following(client) as session:
        await until(lambda: session.link == "live")
        client.queue.put_nowait(ev.LoggedEvent(sequence=1, event=notice("old")))
        client.happen(notice("new"))
        await until(lambda: last_notice(session) == "new")
        assert session.snapshot == client.state


async def test_a_quiet_node_is_asked_whether_it_is_there() -> None:
    client = ScriptedClient(state=bare())
    async with following(client) as session:
        await until(lambda: session.link == "live")
        client.delay = 5.0
        await until(lambda: session.link == "lost")
        assert session.snapshot is not None
        assert session.view().trouble == "it took too long to answer"
        assert session.view().local[-1].text.startswith("lost the node")
        client.delay = 0.0
        await until(lambda: session.link == "live")
        assert session.view().local[-1].text == "the node answers again"


async def test_loss_of_the_stream_is_followed_by_a_new_snapshot() -> None:
    client = ScriptedClient(state=bare())
    async with following(client) as session:
        await until(lambda: session.link == "live")
        client.queue.put_nowait(NodeNotRunning("The connection broke."))
        await until(lambda: session.link == "lost")
        await until(lambda: session.link == "live")
        client.queue.put_nowait(None)
        client.happen(notice("while away"))
        await until(lambda: last_notice(session) == "while away")


async def test_a_node_that_comes_later_is_found() -> None:
    client = ScriptedClient(state=None)
    async with following(client) as session:
        await until(lambda: client.snapshots > 2)
        assert (session.link, session.snapshot) == ("connecting", None)
        assert "No node answers" in session.view().trouble
        client.state = bare()
        await until(lambda: session.link == "live")


async def test_acting_before_there_is_a_client_is_an_error_in_words() -> None:
    async def never() -> NodeClient:
        raise AssertionError("not opened in this test")

    with pytest.raises(NodeNotRunning, match="has not answered yet"):
        await Session(never, lambda: None).act("load", model="auto")


async def test_a_real_node_over_a_real_socket(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    async with running() as node:
        client = await open_client(node.url, "", token_file)
        async with following(client) as session:
            await until(lambda: session.link == "live")
            node.backend.store.append(ev.ModelRequested(at=1.0, model=ModelId("m"), ref="auto"))
            await until(lambda: bool(session.snapshot and session.snapshot.models))
            with pytest.raises(NotAuthorized):
                await session.act("load", model="auto")
            # A node that has just been started writes its token after the dashboard has connected.
            token_file.write_text(f"{TOKEN}\n")
            await session.act("load", model="auto")
            assert node.backend.asked == [("load", {"model": "auto"})]
            node.fail_with(InvalidRequest("No such model.", hint="Look at the list."))
            with pytest.raises(MeshError, match="No such model"):
                await session.act("load", model="nope")


def test_a_token_file_that_cannot_be_read_is_no_token(tmp_path: Path) -> None:
    assert read_token(tmp_path / "missing") == ""
    assert read_token(tmp_path) == ""
    (tmp_path / "large").write_bytes(b"x" * 10_000)
    assert len(read_token(tmp_path / "large")) == 4096

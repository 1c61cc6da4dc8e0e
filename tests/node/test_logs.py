"""The logs of a node and its engines, read by name over the management API."""

import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from meshllm_core.api.questions import QUESTIONS, QuestionSpec
from meshllm_core.api.schema_logs import LogPiece, LogsAnswer, LogsArguments, ReadLogArguments
from meshllm_core.errors import InvalidRequest, NodeError, NotAuthorized
from meshllm_core.log_files import PIECE_LIMIT, find_log, list_logs, read_piece
from meshllm_core.node.answer_logs import answer_logs, answer_read_log
from meshllm_core.node.engine_log import engine_log
from meshllm_core.paths import Paths, default_paths
from tests.api.manage.conftest import Backend, Node, running

LINE = "2026-01-01 INFO something happened\n"


@dataclass
class LogBackend(Backend):
    """Answers the questions about logs as a node does."""

    questions: Mapping[str, QuestionSpec] = field(default_factory=lambda: QUESTIONS)

    async def ask(self, name: str, arguments: msgspec.Struct) -> msgspec.Struct:
        if isinstance(arguments, ReadLogArguments):
            return await answer_read_log(default_paths(), arguments)
        assert isinstance(arguments, LogsArguments)
        return await answer_logs(default_paths(), arguments)


@pytest.fixture
def paths() -> Paths:
    found = default_paths()
    found.logs.mkdir(parents=True)
    return found


@pytest.fixture
async def node(paths: Paths) -> AsyncIterator[Node]:
    async with running(make=LogBackend) as running_node:
        yield running_node


def put(path: Path, text: str, at: float = 1000.0) -> Path:
    path.write_text(text, encoding="utf-8")
    os.utime(path, (at, at))
    return path


async def test_the_nodes_log_comes_first_then_engines_by_age(node: Node, paths: Paths) -> None:
    assert (await node.client.ask("logs", LogsAnswer)).logs == ()
    put(engine_log(paths.logs, "old"), LINE, 10)
    put(engine_log(paths.logs, "owner/new:Q4"), LINE, 20)
    put(paths.logs / "node.log", LINE * 2, 5)
    put(paths.logs / "something-else.log", LINE)
    (paths.logs / "engine-link.log").symlink_to("/etc/hostname")
    (paths.logs / "engine-folder.log").mkdir()
    listed = (await node.client.ask("logs", LogsAnswer)).logs
    assert [(row.name, row.model, row.bytes) for row in listed] == [
        ("node", "", 2 * len(LINE)),
        ("engine-owner_new_Q4", "owner_new_Q4", len(LINE)),
        ("engine-old", "old", len(LINE)),
    ]


async def test_a_log_is_followed_piece_by_piece(node: Node, paths: Paths) -> None:
    log = put(paths.logs / "node.log", "one\ntwo\nhal")
    first = await node.client.ask("logs/read", LogPiece, name="node")
    assert (first.text, first.start, first.end, first.fresh) == ("one\ntwo\n", 0, 8, False)
    with log.open("a") as file:
        file.write("f\nthree\n")
    more = await node.client.ask("logs/read", LogPiece, name="node", after=first.end, file=first.file)
    assert (more.text, more.end, more.size) == ("half\nthree\n", 19, 19)
    nothing = await node.client.ask("logs/read", LogPiece, name="node", after=more.end, file=more.file)
    assert (nothing.text, nothing.end) == ("", 19)


async def test_a_log_that_began_anew_is_read_from_its_beginning(node: Node, paths: Paths) -> None:
    log = put(paths.logs / "node.log", LINE * 10)
    before = await node.client.ask("logs/read", LogPiece, name="node")
    log.rename(log.with_suffix(".log.1"))
    put(log, "new\n" * 200)
    piece = await node.client.ask("logs/read", LogPiece, name="node", after=before.end, file=before.file)
    assert (piece.fresh, piece.start, piece.text[:8]) == (True, 0, "new\nnew\n")
    put(log, "x\n")
    piece = await node.client.ask("logs/read", LogPiece, name="node", after=piece.end, file=piece.file)
    assert (piece.fresh, piece.text) == (True, "x\n")


async def test_secrets_are_not_shown(node: Node, paths: Paths) -> None:
    put(engine_log(paths.logs, "m"), "Authorization: Bearer abcdefghijkl\n")
    piece = await node.client.ask("logs/read", LogPiece, name="engine-m")
    assert "abcdefghijkl" not in piece.text


@pytest.mark.parametrize(
    "name",
    ["../node", "node.log", "/etc/passwd", "engine-none", "", "a" * 161, "management-token", "node\x00"],
)
async def test_only_listed_names_are_read(node: Node, paths: Paths, name: str) -> None:
    put(paths.logs / "node.log", LINE)
    (paths.logs / "engine-none.log").symlink_to(paths.token_file)
    with pytest.raises(InvalidRequest) as refused:
        await node.client.ask("logs/read", LogPiece, name=name)
    assert refused.value.param == "name"


async def test_it_needs_the_token(node: Node, paths: Paths) -> None:
    put(paths.logs / "node.log", LINE)
    for path in ("/api/logs", "/api/logs/read?name=node"):
        answer = await node.http.get(path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, NotAuthorized.code)


@pytest.mark.parametrize("query", ["after=-1", "after=x", "file=" + "f" * 65, "lines=3"])
async def test_bad_arguments_are_named(node: Node, paths: Paths, query: str) -> None:
    put(paths.logs / "node.log", LINE)
    answer = await node.http.get(
        f"/api/logs/read?name=node&{query}", headers={"authorization": f"Bearer {'t' * 43}"}
    )
    assert answer.status_code == 400
    assert query.partition("=")[0] in answer.json()["error"]["message"]


def test_a_piece_is_bounded_and_ends_with_a_line(paths: Paths) -> None:
    log = put(paths.logs / "node.log", LINE * 10_000)
    last = read_piece(log, None)
    assert len(last.data) <= PIECE_LIMIT
    assert (last.end, last.data[:4], last.data[-1:]) == (len(LINE) * 10_000, b"2026", b"\n")
    position, read = 0, 0
    while position < last.size:
        piece = read_piece(log, position, last.file)
        assert 0 < len(piece.data) <= PIECE_LIMIT
        assert piece.data.startswith(b"2026")
        position, read = piece.end, read + 1
    assert read > 5


def test_a_line_longer_than_a_piece_does_not_stop_the_reading(paths: Paths) -> None:
    log = put(paths.logs / "node.log", "a" * (PIECE_LIMIT + 100) + "\nend\n")
    first = read_piece(log, 0)
    assert len(first.data) == PIECE_LIMIT
    assert read_piece(log, first.end).data == b"a" * 100 + b"\nend\n"


def test_a_log_that_went_away_is_told(paths: Paths) -> None:
    log = put(paths.logs / "node.log", LINE)
    found = find_log(paths, "node")
    log.unlink()
    with pytest.raises(NodeError, match="Cannot read"):
        read_piece(found.path, 0)
    assert list_logs(paths) == []

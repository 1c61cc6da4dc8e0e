"""What a node leaves for its clients: the token, and the record by which it is found."""

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from meshllm_core.api.record import NodeRecord, find_node, read_record, remove_record, write_record
from meshllm_core.api.token import check_bearer, ensure_token, read_token
from meshllm_core.errors import NodeError, NotAuthorized
from meshllm_core.paths import Paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path, tmp_path / "data", tmp_path, tmp_path)


def test_a_token_is_made_once_and_only_for_its_owner(paths: Paths) -> None:
    token = ensure_token(paths.token_file)
    assert len(token) >= 32
    assert ensure_token(paths.token_file) == token == read_token(paths.token_file)
    assert paths.token_file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in paths.data.iterdir()] == [paths.token_file.name]


def test_nodes_that_start_at_once_agree(paths: Paths) -> None:
    barrier = threading.Barrier(8)

    def make() -> str:
        barrier.wait()
        return ensure_token(paths.token_file)

    with ThreadPoolExecutor(8) as pool:
        tokens = [future.result() for future in [pool.submit(make) for _ in range(8)]]
    assert len(set(tokens)) == 1


def test_a_token_that_others_could_read_becomes_private(paths: Paths) -> None:
    ensure_token(paths.token_file)
    paths.token_file.chmod(0o644)
    read_token(paths.token_file)
    assert paths.token_file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 5000, b"\xff" * 40, b"two words " * 5])
def test_a_file_that_holds_no_token_is_refused(paths: Paths, content: bytes) -> None:
    paths.data.mkdir()
    paths.token_file.write_bytes(content)
    with pytest.raises(NodeError, match="does not hold a token"):
        ensure_token(paths.token_file)
    assert read_token(paths.token_file) == ""


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(NodeError, match="Cannot write"):
        ensure_token(blocked / "token")


def test_a_full_disk_is_not_blamed_on_permissions(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NodeError, match="No space left") as caught:
        ensure_token(paths.token_file)
    assert "Free some space" in caught.value.hint


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer wrong", "Basic right", "right", "Bearer rightx"]
)
def test_only_the_right_bearer_passes(header: str | None) -> None:
    check_bearer("Bearer right", "right")
    check_bearer("bearer right ", "right")
    with pytest.raises(NotAuthorized) as caught:
        check_bearer(header, "right")
    assert "right" not in caught.value.message


def record(pid: int, port: int) -> NodeRecord:
    url = f"http://127.0.0.1:{port}"
    return NodeRecord(pid=pid, api_url=url, console_url=url, started_at=1.0)


def test_records_are_written_whole_and_removed_by_their_owner(paths: Paths) -> None:
    assert read_record(paths) is None
    write_record(paths, record(5, 1))
    assert read_record(paths) == record(5, 1)
    remove_record(paths, 6)
    assert read_record(paths) is not None
    remove_record(paths, 5)
    assert read_record(paths) is None
    assert list(paths.data.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid":"x"}', b"\xff", b'{"pid":1}'])
def test_a_damaged_record_is_no_node(paths: Paths, content: bytes) -> None:
    paths.data.mkdir()
    paths.node_file.write_bytes(content)
    assert read_record(paths) is None
    assert find_node(paths) is None


class _Health(BaseHTTPRequestHandler):
    body = b"{}"

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        return


def found(paths: Paths, pid: int, body: bytes) -> NodeRecord | None:
    """`find_node` for a record of `pid` while something answers /health with `body`."""
    handler = type("_Answer", (_Health,), {"body": body})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            write_record(paths, record(pid, server.server_address[1]))
            return find_node(paths)
        finally:
            server.shutdown()
            thread.join()


def test_a_node_is_found_when_it_lives_and_answers(paths: Paths) -> None:
    own = os.getpid()
    assert found(paths, own, b'{"pid":%d,"more":1}' % own) is not None
    assert found(paths, own, b'{"pid":1}') is None
    assert found(paths, own, b"<html>") is None
    assert found(paths, own, b"\xff") is None
    assert found(paths, 2**22 + 7, b'{"pid":%d}' % (2**22 + 7)) is None
    assert found(paths, 0, b'{"pid":0}') is None
    assert found(paths, -1, b'{"pid":-1}') is None


def test_a_port_where_nobody_listens_is_no_node(paths: Paths, unused_tcp_port: int) -> None:
    write_record(paths, record(os.getpid(), unused_tcp_port))
    assert find_node(paths) is None
    write_record(paths, NodeRecord(pid=os.getpid(), api_url="", console_url="nonsense", started_at=0.0))
    assert find_node(paths) is None

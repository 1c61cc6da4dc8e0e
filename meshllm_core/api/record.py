"""The record of the running node, and how to find that node from another process of the same user."""

import contextlib
import os
import socket
import sys
import time
from urllib.parse import urlsplit

import msgspec

from meshllm_core.paths import Paths

RECORD_LIMIT = 16 * 1024
"""Bytes of the file that are read at most."""
ANSWER_LIMIT = 64 * 1024


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a running node leaves for others to find it by."""

    pid: int
    api_url: str
    """Base of the OpenAI endpoint, without /v1."""
    console_url: str
    """Base of the management API."""
    started_at: float
    """Seconds since the epoch."""


class _HealthPid(msgspec.Struct):
    pid: int


def write_record(paths: Paths, record: NodeRecord) -> None:
    """Puts the record where `find_node` looks; whole or not at all. Raises OSError."""
    paths.node_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    beside = paths.node_file.with_name(f".{paths.node_file.name}.{os.getpid()}")
    try:
        beside.write_bytes(msgspec.json.encode(record))
        beside.replace(paths.node_file)
    finally:
        beside.unlink(missing_ok=True)


def remove_record(paths: Paths, pid: int) -> None:
    """Removes the record if it is of the node `pid`: a later node's stays."""
    found = read_record(paths)
    if found is not None and found.pid == pid:
        with contextlib.suppress(OSError):
            paths.node_file.unlink()


def read_record(paths: Paths) -> NodeRecord | None:
    """The record as written, with no look at whether that node still runs."""
    try:
        with paths.node_file.open("rb") as file:
            return msgspec.json.decode(file.read(RECORD_LIMIT), type=NodeRecord)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def find_node(paths: Paths, *, timeout: float = 1.0) -> NodeRecord | None:
    """The node of this user that runs and answers, or None. Blocks for at most `timeout` seconds."""
    record = read_record(paths)
    if record is None or not _alive(record.pid):
        return None
    return record if node_pid(record.console_url, timeout=timeout) == record.pid else None


def node_pid(console_url: str, *, timeout: float = 1.0) -> int | None:
    """The process id of the meshllm node whose management API is at this address, or None.

    A plain socket: the dashboard waits for this, and an HTTP library takes longer to import than it takes.
    """
    try:
        address = urlsplit(console_url)
        host, port = address.hostname or "", address.port or 80
        with socket.create_connection((host, port), timeout=timeout) as connection:
            request = f"GET /health HTTP/1.0\r\nHost: {address.netloc}\r\n\r\n"
            connection.sendall(request.encode("ascii"))
            answer = _read_answer(connection, time.monotonic() + timeout)
        return msgspec.json.decode(answer.partition(b"\r\n\r\n")[2], type=_HealthPid).pid
    except (OSError, msgspec.DecodeError, ValueError, RecursionError):
        return None


def _read_answer(connection: socket.socket, deadline: float) -> bytes:
    answer = bytearray()
    while len(answer) < ANSWER_LIMIT and time.monotonic() < deadline:
        piece = connection.recv(ANSWER_LIMIT)
        if not piece:
            break
        answer += piece
    return bytes(answer)


def _alive(pid: int) -> bool:
    if pid <= 0:
        return False
    if sys.platform == "win32":
        import psutil

        return psutil.pid_exists(pid)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    except OverflowError:
        return False
    return True

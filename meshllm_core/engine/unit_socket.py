"""The units of a chain between a node and its engine child: a socket of their own, read where they are used.

A unit then costs its reader one wake-up: in the child the thread that computes waits for it itself, in the
node the event loop hands it on as it arrives. Each is a length (u32, little-endian) and its bytes.
"""

import asyncio
import contextlib
import os
import select
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import cast

from meshllm_core.engine.protocol import LENGTH, frame_length
from meshllm_core.errors import EngineError

READ_BYTES = 1 << 20


class _Frames:
    """Bytes to units."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """More of them."""
        self._buffer += data

    def take(self) -> bytes | None:
        """The next unit, if all of it is there. Raises EngineError for one that is too large."""
        buffer = self._buffer
        if len(buffer) < LENGTH.size:
            return None
        end = LENGTH.size + frame_length(buffer[: LENGTH.size])
        if len(buffer) < end:
            return None
        unit = bytes(memoryview(buffer)[LENGTH.size : end])
        del buffer[:end]
        return unit


class ChildUnits:
    """The child's end. `wake` is for any thread, everything else for the one that computes."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._frames = _Frames()
        self._told: deque[object] = deque()
        self._bell, self._ring = socket.socketpair()
        self._ring.setblocking(False)
        self._waiting = select.poll()
        self._waiting.register(self._socket, select.POLLIN)
        self._waiting.register(self._bell, select.POLLIN)

    def send(self, unit: bytes) -> None:
        """To the node, which reads eagerly. The process ends when the node is gone."""
        try:
            self._socket.sendall(LENGTH.pack(len(unit)) + unit)
        except OSError:
            os._exit(0)

    def wake(self, told: object) -> None:
        """Something that whoever waits for a unit must hear; `get` gives it like a unit."""
        self._told.append(told)
        with contextlib.suppress(BlockingIOError):  # It rings already.
            self._ring.send(b"\0")

    def put_back(self, told: Sequence[object]) -> None:
        """These are given again, first."""
        self._told.extendleft(reversed(told))

    def get(self, seconds: float | None = None) -> object | None:
        """The next unit (bytes) or what `wake` told; None when there was neither for so long."""
        while True:
            if self._told:
                return self._told.popleft()
            if (unit := self._frames.take()) is not None:
                return unit
            ready = self._waiting.poll(None if seconds is None else seconds * 1000)
            if not ready:
                return None
            for descriptor, _ in ready:
                if descriptor == self._socket.fileno():
                    self._read()
                else:
                    self._bell.recv(READ_BYTES)

    def close(self) -> None:
        """Give the sockets back."""
        for each in (self._socket, self._bell, self._ring):
            each.close()

    def _read(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except OSError:
            data = b""
        if not data:
            os._exit(0)
        self._frames.feed(data)


class NodeUnits(asyncio.Protocol):
    """The node's end."""

    def __init__(self, on_unit: Callable[[bytes], None], on_fault: Callable[[str], None]) -> None:
        """`on_fault` gets the words when the child sent what cannot be read."""
        self._on_unit, self._on_fault = on_unit, on_fault
        self._frames = _Frames()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is connected from the start."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Hands on every unit that is whole."""
        self._frames.feed(data)
        try:
            while (unit := self._frames.take()) is not None:
                self._on_unit(unit)
        except EngineError as error:
            self._on_fault(error.message)
            self.close()

    def send(self, unit: bytes) -> None:
        """What the child has not taken is bounded by who sends units."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(LENGTH.pack(len(unit)) + unit)

    def close(self) -> None:
        """No more units either way."""
        if self._transport is not None:
            self._transport.close()

"""The short form of `python -m tests.transport.fuzz_link`."""

from random import Random

import pytest

from meshllm_core.wire import limits
from tests.transport.fuzz_link import fuzz, messages
from tests.transport.fuzz_packets import mutated, varint


@pytest.mark.parametrize("admitted", [False, True])
async def test_a_listener_stands_what_nobody_should_send(
    monkeypatch: pytest.MonkeyPatch, admitted: bool
) -> None:
    monkeypatch.setattr(limits, "HANDSHAKE_SECONDS", 1.0)
    report = await fuzz(2000, seed=3, admitted=admitted)
    table = "\n".join(report.lines())
    assert not report.failed, table
    assert report.refused["malformed"], table
    assert report.refused["half open"], table
    assert report.refused["too many channels" if admitted else "not admitted"], table
    assert report.connections <= 2, table


def test_mutations_change_something() -> None:
    random, body = Random(1), messages()[0]
    assert sum(mutated(random, body) != body for _ in range(100)) > 90


@pytest.mark.parametrize(
    ("value", "length"), [(0, 1), (63, 1), (64, 2), (16383, 2), (16384, 4), (1 << 30, 8)]
)
def test_varints(value: int, length: int) -> None:
    assert len(varint(value)) == length

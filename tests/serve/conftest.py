"""Fixtures of routing."""

from collections.abc import AsyncIterator

import pytest

from tests.serve.entry import Entry


@pytest.fixture
async def entries() -> AsyncIterator[list[Entry]]:
    """Put the nodes in here that a test makes: their calls are ended."""
    made: list[Entry] = []
    yield made
    for entry in made:
        await entry.peers.close()

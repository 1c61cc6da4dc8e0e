"""Whatever is sent, the answer is a refusal that names the field, and the node serves on."""

import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.api.openai.bad_bodies import ALL, Bad
from tests.api.openai.conftest import MODEL, Endpoint, error_of, scripted, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Endpoint]:
    """One endpoint for the whole table: each body must leave it able to serve the next."""
    async with serving({MODEL: scripted()}) as running:
        yield running


@pytest.mark.parametrize("bad", ALL, ids=lambda bad: bad.name)
async def test_refused(shared: Endpoint, bad: Bad) -> None:
    began = time.monotonic()
    answer = await shared.post(bad.path, bad.body)
    assert time.monotonic() - began < 1
    error = error_of(answer)
    assert (answer.status_code, error["code"], error["param"]) == (bad.status, bad.code, bad.param), error
    assert error["type"] == "invalid_request_error"
    assert error["message"]
    good = await shared.post("/v1/completions", {"model": MODEL, "prompt": "x"})
    assert good.status_code == 200


async def test_the_table_is_large_and_its_names_are_unlike() -> None:
    assert len(ALL) >= 150
    assert len({bad.name for bad in ALL}) == len(ALL)

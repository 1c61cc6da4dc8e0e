"""A short run of the fuzzer against a whole member; the long one is a command (see fuzz_mesh)."""

import pytest

from tests.mesh.fuzz_mesh import run


@pytest.mark.parametrize("admitted", [False, True])
async def test_a_member_stands_what_nobody_should_send(admitted: bool) -> None:
    report = await run(1_000, 11, admitted=admitted)
    assert not report.failed, "\n".join(report.lines())
    assert report.refused["malformed"] > 0

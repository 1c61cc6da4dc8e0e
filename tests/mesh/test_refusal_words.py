"""What a person reads of refusals."""

import pytest

from meshllm_core.state.mesh_events import RefusalCounted
from meshllm_core.state.reduce import reduce
from meshllm_core.state.snapshot import NodeSnapshot


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("no certificate", "refused, no certificate: 10.0.0.4:38404 (1 in all)"),
        ("refused: clock", "refused: clock: 10.0.0.4:38404 (1 in all)"),
    ],
)
def test_a_notice_says_what_was_refused_and_whose(kind: str, words: str) -> None:
    """Some details are an address and nothing else."""
    event = RefusalCounted(at=1.0, kind=kind, count=1, detail="10.0.0.4:38404")
    assert [notice.text for notice in reduce(NodeSnapshot(), event).notices] == [words]

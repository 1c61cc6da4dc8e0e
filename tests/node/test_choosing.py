"""What a node knows of models that are asked for: how much memory a choice has, and that they are in use."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from meshllm_core.config import load_settings
from meshllm_core.errors import ModelNotFound
from meshllm_core.ids import ModelId
from meshllm_core.models.hardware import Hardware
from meshllm_core.models.library import KeptModel
from meshllm_core.models.resolve import ResolvedModel
from meshllm_core.node.answer_models import is_loaded
from meshllm_core.node.hosts import Hosts
from meshllm_core.paths import default_paths
from meshllm_core.state import events as ev
from meshllm_core.state.reduce import reduce
from meshllm_core.state.snapshot import NodeSnapshot

LIMIT = 1.5


@pytest.mark.parametrize(
    ("ref", "limit", "counts"),
    [("auto", LIMIT, True), ("auto", 0.0, False), ("owner/repo:Q4_1", LIMIT, False)],
)
async def test_a_limit_counts_where_the_node_chooses_the_model(
    ref: str, limit: float, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MESHLLM_HOME", str(tmp_path))
    paths, told, asked = default_paths(), list[ev.AnyEvent](), list[int]()

    def resolve(_: str, *, memory_available: int, **__: Any) -> ResolvedModel:
        asked.append(memory_available)
        raise ModelNotFound("There is none here.")

    settings = load_settings(paths, flags={"max_vram": limit}, environ={})
    hardware = asyncio.create_task(asyncio.sleep(0, cast("Hardware", None)))
    hosts = Hosts(settings, paths, told.append, told.append, resolve, hardware)
    hosts.load(ref)
    for _ in range(1000):
        if any(isinstance(event, ev.ModelFailed) for event in told):
            break
        await asyncio.sleep(0.01)
    assert (asked[0] == LIMIT * 1e9) == counts


def test_a_model_is_loaded_from_the_moment_on_that_it_was_asked_for() -> None:
    """Its row has the name that was asked for until the file is known; what it reads must stay."""
    ref = "owner/tiny-GGUF:Q4_1"
    kept = KeptModel(
        key="k", id="tiny-Q4_1", ref=ref, repo="owner/tiny-GGUF", quant="Q4_1", files=(Path("/f.gguf"),),
        kind="model", complete=True, bytes_here=1, bytes_total=1, modified=0.0, used_by=(),
    )  # fmt: skip
    asked = reduce(NodeSnapshot(), ev.ModelRequested(at=0.0, model=ModelId(ref), ref=ref))
    assert is_loaded(kept, asked)
    assert not is_loaded(kept, NodeSnapshot())
    failed = ev.ModelFailed(at=1.0, model=ModelId(ref), code="model_too_large", message="no", hint="")
    assert not is_loaded(kept, reduce(asked, failed))

"""Which model answers, and what is said when none can."""

import msgspec
import pytest

from meshllm_core.errors import ModelNotReady, ModelUnknown
from meshllm_core.ids import ModelId
from meshllm_core.serve.router import HostedModel, choose
from tests.support.scripted_engine import FACTS, ScriptedEngine


def ready(name: str, parameters: int = 1_000) -> HostedModel:
    facts = msgspec.structs.replace(FACTS, parameters=parameters)
    return HostedModel(ModelId(name), 0, "ready", ScriptedEngine(facts=facts))


def hosted(*models: HostedModel) -> dict[ModelId, HostedModel]:
    return {model.id: model for model in models}


LOADING = HostedModel(ModelId("slow"), 0, "loading", detail="40 % read")
FAILED = HostedModel(ModelId("broken"), 0, "failed", detail="out of memory")


def test_a_model_is_found_by_its_name() -> None:
    model = ready("a")
    assert choose(hosted(ready("b"), model), "a").local is model


def test_auto_takes_the_largest_that_is_ready() -> None:
    large = ready("large", 9_000)
    assert choose(hosted(ready("small"), large, ready("middle", 5_000), LOADING), "auto").local is large


def test_auto_without_a_ready_model() -> None:
    with pytest.raises(ModelNotReady, match=r"slow is still loading: 40 % read\."):
        choose(hosted(FAILED, LOADING), "auto")
    with pytest.raises(ModelNotReady, match=r"broken failed: out of memory"):
        choose(hosted(FAILED), "auto")
    with pytest.raises(ModelUnknown, match="meshllm load"):
        choose({}, "auto")


def test_auto_takes_one_that_can_do_what_is_asked() -> None:
    facts = msgspec.structs.replace(FACTS, parameters=1, embeddings=True, generates=False)
    embedder = HostedModel(ModelId("vectors"), 0, "ready", ScriptedEngine(facts=facts))
    both = hosted(ready("writer", 9_000), embedder)
    assert choose(both, "auto", "embeddings").local is embedder
    assert choose(both, "auto", "text").name == "writer"
    assert choose(hosted(embedder, FAILED), "auto", "text").local is embedder
    with pytest.raises(ModelNotReady, match="slow is still loading"):
        choose(hosted(embedder, LOADING), "auto", "text")


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ModelUnknown, match=r"'gpt-9'.* Served: a, b") as caught:
        choose(hosted(ready("b"), ready("a")), "gpt-9")
    assert caught.value.param == "model"
    with pytest.raises(ModelUnknown, match="Served: a, slow") as caught:
        choose(hosted(FAILED, LOADING, ready("a")), "gpt-9")
    with pytest.raises(ModelUnknown, match="meshllm load"):
        choose(hosted(FAILED), "gpt-9")
    with pytest.raises(ModelUnknown) as caught:
        choose({}, "x" * 100_000)
    assert len(str(caught.value)) < 500


def test_a_model_that_is_not_ready_says_why_and_when() -> None:
    with pytest.raises(ModelNotReady, match="out of memory") as failed:
        choose(hosted(FAILED), "broken")
    with pytest.raises(ModelNotReady, match="still loading") as loading:
        choose(hosted(LOADING), "slow")
    assert failed.value.retry_after > loading.value.retry_after


@pytest.mark.parametrize("detail", ["it waits for machines", "it waits for machines.", "join first.."])
def test_what_it_waits_for_ends_in_one_full_stop(detail: str) -> None:
    waiting = HostedModel(ModelId("slow"), 0, "loading", detail=detail)
    with pytest.raises(ModelNotReady, match=r"[a-z]\.$") as caught:
        choose(hosted(waiting), "slow")
    assert ".." not in caught.value.message

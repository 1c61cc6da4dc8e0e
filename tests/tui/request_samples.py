"""Requests of every kind."""

from meshllm_core.ids import ModelId, RequestId
from meshllm_core.state import events as ev
from meshllm_core.state.snapshot import NodeSnapshot
from tests.tui.samples import LARGE, SMALL, START, fold, serving


def started(name: str, at: float, model: ModelId = SMALL, **changes: object) -> ev.RequestStarted:
    """A request that was accepted `at` seconds after the node's start."""
    route = str(changes.get("route", "/v1/chat/completions"))
    return ev.RequestStarted(
        at=START + at,
        request=RequestId(name),
        model=model,
        route=route,
        prompt_tokens=512,
        served_by=str(changes.get("served_by", "")),
        asked_by=str(changes.get("asked_by", "")),
    )


def finished(
    name: str, at: float, reason: ev.FinishReason = "stop", model: ModelId = SMALL, error: str = ""
) -> ev.RequestFinished:
    """It ended; 120 ms in the queue, 380 ms of prefill, 2 s of decode."""
    failed = reason == "error"
    return ev.RequestFinished(
        at=START + at,
        request=RequestId(name),
        model=model,
        reason=reason,
        prompt_tokens=512,
        cached_tokens=256,
        completion_tokens=0 if failed else 128,
        queue_ms=0.0 if failed else 120.0,
        first_token_ms=0.0 if failed else 500.0,
        total_ms=40.0 if failed else 2500.0,
        decode_tokens_per_second=0.0 if failed else 63.5,
        error=error,
    )


def busy() -> NodeSnapshot:
    """Eight requests, two of them running, on top of the usual one."""
    return fold(
        started("a1", 100),
        finished("a1", 103),
        started("a2", 110, LARGE, served_by="attic"),
        finished("a2", 113, "length", LARGE),
        started("a3", 120, route="/v1/embeddings"),
        finished("a3", 121, "error", error="The engine of SmolLM2 ended: out of memory."),
        started("a4", 130, route="mesh", asked_by="cellar"),
        finished("a4", 133, "tool_calls"),
        started("a5", 140, route="/v1/responses"),
        finished("a5", 143, "cancelled"),
        started("a6", 190, LARGE, served_by="attic"),
        started("a7", 196),
        snapshot=serving(),
    )

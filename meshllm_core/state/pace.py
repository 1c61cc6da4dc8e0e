"""How fast this machine computes: read from what it served, else from a calibration. Pure."""

from meshllm_core.state.pace_events import Pace
from meshllm_core.state.snapshot import ModelView, NodeSnapshot

TELLING_TOKENS = 8
"""An answer shorter than this says little about speed."""
TELLING_PROMPT = 64
"""So does a prompt of which fewer tokens had to be computed."""


def decode_rate(snapshot: NodeSnapshot, view: ModelView) -> float:
    """Tokens per second of the last request that was long enough to tell; else what is sampled now."""
    for request in reversed(snapshot.requests):
        if request.model == view.id and request.completion_tokens >= TELLING_TOKENS and not request.served_by:
            return request.decode_tokens_per_second
    return view.decode_tokens_per_second


def prefill_rate(snapshot: NodeSnapshot, view: ModelView) -> float:
    """Tokens of a prompt per second, of the last request whose prompt was long enough to tell; else 0."""
    for request in reversed(snapshot.requests):
        computed = request.prompt_tokens - request.cached_tokens
        took = request.first_token_ms - request.queue_ms
        if request.model == view.id and computed >= TELLING_PROMPT and took > 0 and not request.served_by:
            return computed / took * 1000
    return 0.0


def observed(snapshot: NodeSnapshot) -> Pace:
    """What whole models that answer here show; zeros until one has."""
    whole = [
        view
        for view in snapshot.models
        if view.status == "ready" and view.split is None and not view.embeddings
    ]
    decode = max((int(decode_rate(snapshot, view) * view.file_bytes) for view in whole), default=0)
    prefill = max((int(prefill_rate(snapshot, view) * view.file_bytes) for view in whole), default=0)
    return Pace(decode=decode, prefill=prefill, source="measured" if decode else "")


def pace_of(snapshot: NodeSnapshot) -> Pace:
    """What was observed, and where nothing was, what is kept from before."""
    seen, kept = observed(snapshot), snapshot.pace
    prefill = seen.prefill or kept.prefill
    if seen.decode:
        return Pace(decode=seen.decode, prefill=prefill, source="measured")
    return Pace(decode=kept.decode, prefill=prefill, source=kept.source)

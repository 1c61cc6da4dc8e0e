"""How fast this machine computes, read from what it served. Pure."""

from meshllm_core.state.snapshot import ModelView, NodeSnapshot

TELLING_TOKENS = 8
"""An answer shorter than this says little about speed."""


def decode_rate(snapshot: NodeSnapshot, view: ModelView) -> float:
    """Tokens per second of the last request that was long enough to tell; else what is sampled now."""
    for request in reversed(snapshot.requests):
        if request.model == view.id and request.completion_tokens >= TELLING_TOKENS and not request.served_by:
            return request.decode_tokens_per_second
    return view.decode_tokens_per_second


def weights_per_second(snapshot: NodeSnapshot) -> int:
    """Bytes of weights that a decode goes through in a second here; 0 until some whole model has answered."""
    rates = (
        decode_rate(snapshot, view) * view.file_bytes
        for view in snapshot.models
        if view.status == "ready" and view.split is None and not view.embeddings
    )
    return int(max(rates, default=0))

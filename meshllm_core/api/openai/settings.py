"""What a person may set about the OpenAI endpoint."""

from dataclasses import dataclass

from meshllm_core.api.guard import LOOPBACK_HOSTS

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True)
class OpenAISettings:
    """Limits and manners of `/v1`. Frozen: given once, when the application is built."""

    max_body_bytes: int = 4 * MEBIBYTE
    """Largest request body; a larger one is answered 413."""
    keep_alive_seconds: float = 10.0
    """A stream that has nothing to say sends a comment this often."""
    api_key: str = ""
    """Clients must send it as bearer token; empty: none is asked for."""
    allowed_hosts: frozenset[str] = LOOPBACK_HOSTS
    """Names that Host and Origin may carry, without port; `*` allows any."""
    default_max_tokens: int | None = None
    """Tokens of an answer when the request names no limit; None: until the context is full."""
    embedding_inputs: int = 2048
    """Most inputs in one embeddings request."""

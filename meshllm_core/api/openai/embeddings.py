"""`POST /v1/embeddings`, for models that were trained for it."""

import base64
import struct

from starlette.requests import Request
from starlette.responses import Response

from meshllm_core.api.openai.completions import check_tokens
from meshllm_core.api.openai.context import Edge, json_response, while_connected
from meshllm_core.api.openai.schema_other import EmbeddingRequest
from meshllm_core.api.openai.wire import served_field, served_headers
from meshllm_core.engine.base import StageEngine
from meshllm_core.errors import InvalidRequest, UnsupportedFeature


async def embeddings(request: Request) -> Response:
    """Turn texts into vectors of unit length."""
    edge = Edge.of(request)
    body = await edge.read(request, EmbeddingRequest)
    model, engine = await edge.service.resolve(body.model, "embeddings")
    if not engine.facts.embeddings:
        raise UnsupportedFeature(
            f"The model {model.id} does not make embeddings.",
            hint="Load an embedding model.",
            param="model",
        )
    inputs = body.inputs
    if len(inputs) > edge.settings.embedding_inputs:
        raise InvalidRequest(
            f"Invalid 'input': at most {edge.settings.embedding_inputs} at a time.",
            hint="Send several requests.",
            param="input",
        )
    inputs = [check_tokens(item, engine.facts, f"input[{index}]") for index, item in enumerate(inputs)]
    results = await while_connected(request, _embed(engine, inputs))
    served = edge.service.served(engine)
    as_base64 = body.encoding_format == "base64"
    tokens = sum(count for _, count in results)
    return json_response(
        {
            "object": "list",
            "data": [
                {"object": "embedding", "index": index, "embedding": _encode(vector, as_base64)}
                for index, (vector, _) in enumerate(results)
            ],
            "model": model.id,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            **served_field(served),
        },
        served_headers(served),
    )


async def _embed(
    engine: StageEngine, inputs: list[str | tuple[int, ...]]
) -> tuple[tuple[list[float], int], ...]:
    return await engine.embed(inputs)


def _encode(vector: list[float], as_base64: bool) -> list[float] | str:
    if not as_base64:
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()

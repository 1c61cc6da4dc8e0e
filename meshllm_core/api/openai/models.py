"""`GET /v1/models`, and the health routes: answered from what the node knows, whatever its models do."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from meshllm_core.api.openai.context import Edge, json_response
from meshllm_core.api.openai.wire import json_bytes
from meshllm_core.serve.catalogue import ListedModel
from meshllm_core.serve.router import unknown


async def list_models(request: Request) -> Response:
    """The models that answer now or soon, of this node and the mesh; failed ones are left out so that no
    client offers them.
    """
    models = [model for model in Edge.of(request).service.catalogue() if model.status != "failed"]
    return json_response({"object": "list", "data": [_view(model) for model in models]})


async def show_model(request: Request) -> Response:
    """One model by its exact id, whatever its status."""
    name = request.path_params["model_id"]
    models = Edge.of(request).service.catalogue()
    found = next((model for model in models if model.id == name), None)
    if found is None:
        raise unknown(name, [model.id for model in models if model.status != "failed"])
    return json_response(_view(found))


def _view(model: ListedModel) -> dict[str, Any]:
    """OpenAI's four fields, and ours: `status` with `detail`, `meta` as far as it is known, who has it."""
    view: dict[str, Any] = {
        "id": model.id,
        "object": "model",
        "created": model.created,
        "owned_by": "meshllm",
        "status": model.status,
    }
    if model.detail:
        view["detail"] = model.detail
    if model.facts is not None:
        facts = model.facts
        view["meta"] = {
            "architecture": facts.architecture,
            "parameters": facts.parameters,
            "context": facts.context,
            "context_trained": facts.context_trained,
            "vocabulary": facts.vocabulary,
            "chat": facts.generates,
            "embeddings": facts.embeddings,
        }
    elif model.replica is not None:
        offer = model.replica.offer
        view["meta"] = {
            "architecture": offer.architecture,
            "parameters": offer.parameters,
            "context": offer.context,
            "chat": not offer.embeddings,
            "embeddings": offer.embeddings,
        }
    view["meshllm"] = {
        "nodes": [
            {
                "name": holder.node.name,
                "node": holder.node.node,
                "status": holder.status,
                "local": holder.node.hops == 0,
            }
            for holder in model.holders
        ]
    }
    return view


async def health(_: Request) -> Response:
    """The process answers."""
    return json_response({"status": "ok"})


async def ready(request: Request) -> Response:
    """200 when at least one model answers, here or elsewhere, else 503; either way the status of each."""
    service = Edge.of(request).service
    models = service.catalogue()
    is_ready = service.accepting and any(model.status == "ready" for model in models)
    body = {"status": "ready" if is_ready else "not_ready", "models": {m.id: m.status for m in models}}
    headers = {} if is_ready else {"retry-after": "2"}
    return Response(
        json_bytes(body), 200 if is_ready else 503, headers=headers, media_type="application/json"
    )

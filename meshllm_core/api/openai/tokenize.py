"""`POST /v1/tokenize` and `/v1/detokenize`: what a model sees of a text (an extension)."""

from starlette.requests import Request
from starlette.responses import Response

from meshllm_core.api.openai.completions import check_tokens
from meshllm_core.api.openai.context import Edge, json_response
from meshllm_core.api.openai.schema_other import DetokenizeRequest, TokenizeRequest
from meshllm_core.api.openai.translate import Conversation, message_of, tool_of
from meshllm_core.api.openai.wire import served_headers


async def tokenize(request: Request) -> Response:
    """Token ids of a text, or of a conversation as the model's template writes it."""
    edge = Edge.of(request)
    body = await edge.read(request, TokenizeRequest)
    model, engine = await edge.resolve(body.model)
    if body.messages is None:
        tokens = await engine.tokenize(
            body.content or "", add_special=body.add_special is not False, parse_special=True
        )
    else:
        conversation = Conversation(
            [message_of(message) for message in body.messages],
            tools=[tool_of(tool) for tool in body.tools or []],
            template_variables=body.chat_template_kwargs,
        )
        prompt = await conversation.render(engine.facts)
        tokens = await engine.tokenize(prompt.text, add_special=not prompt.adds_bos, parse_special=True)
    answer = {"model": model.id, "tokens": tokens, "count": len(tokens)}
    return json_response(answer, served_headers(edge.service.served(engine)))


async def detokenize(request: Request) -> Response:
    """The text of token ids."""
    edge = Edge.of(request)
    body = await edge.read(request, DetokenizeRequest)
    model, engine = await edge.resolve(body.model)
    tokens = tuple(body.tokens)
    if tokens:
        check_tokens(tokens, engine.facts, "tokens")
    answer = {"model": model.id, "content": await engine.detokenize(tokens)}
    return json_response(answer, served_headers(edge.service.served(engine)))

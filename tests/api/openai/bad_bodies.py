"""Bodies that must be refused: what is sent where, and the status, code and param of the answer."""

import json
from typing import Any, NamedTuple

from tests.api.openai.conftest import MODEL, chat_body

CHAT, TEXT, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
EMBEDDINGS, TOKENIZE, DETOKENIZE = "/v1/embeddings", "/v1/tokenize", "/v1/detokenize"
WRONG, UNKNOWN, REFUSED = "invalid_value", "unknown_parameter", "unsupported_parameter"
FEATURE = "unsupported_model_feature"


class Bad(NamedTuple):
    """One body and its answer."""

    name: str
    body: object
    code: str
    param: str | None
    path: str = CHAT
    status: int = 400


def _raw(**fields: object) -> bytes:
    """A chat request in ASCII JSON, so that escapes are written out."""
    return json.dumps(chat_body(**fields)).encode()


def _says(content: object, role: object = "user", **more: object) -> dict[str, Any]:
    return chat_body(messages=[{"role": role, "content": content, **more}])


def _text(**fields: object) -> dict[str, object]:
    return {"model": MODEL, "prompt": "x", **fields}


def _response(**fields: object) -> dict[str, object]:
    return {"model": MODEL, "input": "x", **fields}


def _tool(**fields: object) -> dict[str, object]:
    return {"type": "function", "function": {"name": "f", **fields}}


def _part(**fields: object) -> dict[str, Any]:
    return chat_body(
        messages=[
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "t"}, fields]},
        ]
    )


ARGUMENTS = "messages[0].tool_calls[0].function.arguments"

_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def _call(arguments: object) -> dict[str, Any]:
    call = {**_CALL, "function": {"name": "f", "arguments": arguments}}
    return _says(None, "assistant", tool_calls=[call])


BYTES = [
    Bad("empty", b"", WRONG, None),
    Bad("only spaces", b" \r\n ", WRONG, None),
    Bad("byte order mark", b"\xef\xbb\xbf" + _raw(), WRONG, None),
    Bad("UTF-16", _raw().decode().encode("utf-16"), WRONG, None),
    Bad("not UTF-8", _raw(user="?").replace(b"?", b"\xff"), WRONG, None),
    Bad("surrogate as UTF-8", _raw(user="?").replace(b"?", b"\xed\xa0\x80"), WRONG, None),
    Bad("not JSON", b"model=scripted", WRONG, None),
    Bad("cut off", _raw()[:-2], WRONG, None),
    Bad("two values", _raw() + _raw(), WRONG, None),
    Bad("trailing comma", b'{"model":"x",}', WRONG, None),
    Bad("single quotes", b"{'model': 'x'}", WRONG, None),
    Bad("raw NUL", b"\x00", WRONG, None),
    Bad("raw control character", _raw(user="?").replace(b"?", b"\x01"), WRONG, None),
    Bad("null", b"null", WRONG, None),
    Bad("array", b"[]", WRONG, None),
    Bad("number", b"1", WRONG, None),
    Bad("string", b'"hello"', WRONG, None),
    Bad("true", b"true", WRONG, None),
    Bad("deep arrays", b'{"model":' + b"[" * 100_000 + b"]" * 100_000 + b"}", WRONG, None),
    Bad("deep objects", b'{"a":' * 65 + b"1" + b"}" * 65, WRONG, None),
    Bad("deep and cut off", b"[" * 1_000_000, WRONG, None),
    Bad("a million arrays", b'{"model":[' + b"[]," * 1_000_000 + b"[]]}", WRONG, None),
    Bad("NaN", _raw(temperature=float("nan")), WRONG, None),
    Bad("Infinity", _raw(temperature=float("inf")), WRONG, None),
    Bad("1e309", _raw(temperature=7).replace(b"7", b"1e309"), WRONG, None),
    Bad("-1e309", _raw(temperature=7).replace(b"7", b"-1e309"), WRONG, None),
    Bad("5000 digits", _raw(seed=7).replace(b"7", b"7" * 5000), WRONG, None),
    Bad("40 digits", _raw(seed=7).replace(b"7", b"7" * 40), WRONG, "seed"),
    Bad("key given twice", b'{"model":"a","model":"b"}', WRONG, "model"),
    Bad("5 MiB", _raw(user="x" * 5 * 2**20), "payload_too_large", None, status=413),
    Bad("100 MB said, none sent", b"", WRONG, None),
]

TEXTS = [
    Bad("lone surrogate", _says("\ud800"), WRONG, "messages[0].content"),
    Bad("low surrogate first", _says("\udc00\ud800"), WRONG, "messages[0].content"),
    Bad("surrogate in a part", _part(type="text", text="\udfff"), WRONG, "messages[1].content[1].text"),
    Bad("surrogate in a key", chat_body(metadata={"\ud800": "x"}), WRONG, "metadata.?"),
    Bad("NUL in text", _says("a\0b"), WRONG, "messages[0].content"),
    Bad("NUL in a stop", chat_body(stop=["\0"]), WRONG, "stop[0]"),
    Bad("NUL in a prompt", _text(prompt="\0"), WRONG, "prompt", TEXT),
    Bad("surrogate in input", _response(input="\ud83d"), WRONG, "input", RESPONSES),
]

CHAT_FIELDS = [
    Bad("no model", {"messages": [{"role": "user", "content": "x"}]}, WRONG, "model"),
    Bad("null model", chat_body(model=None), WRONG, "model"),
    Bad("empty model", chat_body(model=""), WRONG, "model"),
    Bad("model of a wrong type", chat_body(model=["scripted"]), WRONG, "model"),
    Bad("model nobody serves", chat_body(model="nope"), "model_not_found", "model", status=404),
    Bad("model in other case", chat_body(model="Scripted"), "model_not_found", "model", status=404),
    Bad("long model", chat_body(model="x" * 1000), WRONG, "model"),
    Bad("no messages", {"model": MODEL}, WRONG, "messages"),
    Bad("null messages", chat_body(messages=None), WRONG, "messages"),
    Bad("empty messages", chat_body(messages=[]), WRONG, "messages"),
    Bad("messages as text", chat_body(messages="Hi"), WRONG, "messages"),
    Bad("messages as object", chat_body(messages={"role": "user"}), WRONG, "messages"),
    Bad("message as text", chat_body(messages=["Hi"]), WRONG, "messages[0]"),
    Bad("null message", chat_body(messages=[None]), WRONG, "messages[0]"),
    Bad("no role", chat_body(messages=[{"content": "x"}]), WRONG, "messages[0].role"),
    Bad("unknown role", _says("x", "boss"), WRONG, "messages[0].role"),
    Bad(
        "role of a wrong type", chat_body(messages=[{"role": {}, "content": "x"}]), WRONG, "messages[0].role"
    ),
    Bad("function role", _says("x", "function"), REFUSED, "messages[0].role"),
    Bad("no content", chat_body(messages=[{"role": "user"}]), WRONG, "messages[0].content"),
    Bad("null content", _says(None), WRONG, "messages[0].content"),
    Bad("content of a wrong type", _says(7), WRONG, "messages[0].content"),
    Bad("content as object", _says({"text": "x"}), WRONG, "messages[0].content"),
    Bad("empty parts", _says([]), WRONG, "messages[0].content"),
    Bad("part as text", _says(["x"]), WRONG, "messages[0].content[0]"),
    Bad("part without text", _part(type="text"), WRONG, "messages[1].content[1].text"),
    Bad("part of unknown type", _part(type="smell"), WRONG, "messages[1].content[1]"),
    Bad("image", _part(type="image_url", image_url={"url": "data:,"}), FEATURE, "messages[1].content[1]"),
    Bad("audio", _part(type="input_audio", input_audio={}), FEATURE, "messages[1].content[1]"),
    Bad("file", _part(type="file", file={}), FEATURE, "messages[1].content[1]"),
    Bad("message field nobody knows", _says("x", contnet="y"), UNKNOWN, "messages[0].contnet"),
    Bad("silent assistant", _says(None, "assistant"), WRONG, "messages[0].content"),
    Bad("assistant audio", _says("x", "assistant", audio={"id": "a"}), REFUSED, "messages[0].audio"),
    Bad("old function call", _says("x", "assistant", function_call={}), REFUSED, "messages[0].function_call"),
    Bad("arguments not JSON", _call("{"), WRONG, ARGUMENTS),
    Bad("arguments not an object", _call("[]"), WRONG, ARGUMENTS),
    Bad("arguments with NaN", _call('{"a":NaN}'), WRONG, ARGUMENTS),
    Bad("deep arguments", _call("[" * 99), WRONG, ARGUMENTS),
    Bad(
        "surrogate in arguments",
        _call('{"a":"\\ud800"}'),
        WRONG,
        "messages[0].tool_calls[0].function.arguments",
    ),
    Bad("arguments as object", _call({}), WRONG, ARGUMENTS),
    Bad("tool message without id", _says("x", "tool"), WRONG, "messages[0].tool_call_id"),
]

SAMPLING = [
    Bad("temperature as text", chat_body(temperature="0.5"), WRONG, "temperature"),
    Bad("temperature as boolean", chat_body(temperature=True), WRONG, "temperature"),
    Bad("negative temperature", chat_body(temperature=-0.1), WRONG, "temperature"),
    Bad("high temperature", chat_body(temperature=2.1), WRONG, "temperature"),
    Bad("top_p over 1", chat_body(top_p=1.5), WRONG, "top_p"),
    Bad("top_k under -1", chat_body(top_k=-2), WRONG, "top_k"),
    Bad("top_k as a fraction", chat_body(top_k=1.5), WRONG, "top_k"),
    Bad("min_p over 1", chat_body(min_p=2), WRONG, "min_p"),
    Bad("typical_p of 0", chat_body(typical_p=0), WRONG, "typical_p"),
    Bad("repeat_penalty of 0", chat_body(repeat_penalty=0), WRONG, "repeat_penalty"),
    Bad(
        "two repeat penalties",
        chat_body(repeat_penalty=1.1, repetition_penalty=1.2),
        WRONG,
        "repetition_penalty",
    ),
    Bad("presence_penalty over 2", chat_body(presence_penalty=3), WRONG, "presence_penalty"),
    Bad("frequency_penalty under -2", chat_body(frequency_penalty=-3), WRONG, "frequency_penalty"),
    Bad("seed as text", chat_body(seed="1"), WRONG, "seed"),
    Bad("seed over 64 bits", chat_body(seed=2**64), WRONG, "seed"),
    Bad("logit_bias as list", chat_body(logit_bias=[1]), WRONG, "logit_bias"),
    Bad("logit_bias of a word", chat_body(logit_bias={"the": 1}), WRONG, "logit_bias.the"),
    Bad("logit_bias outside", chat_body(logit_bias={"9999999": 1}), WRONG, "logit_bias.9999999"),
    Bad("logit_bias too strong", chat_body(logit_bias={"1": 101}), WRONG, "logit_bias.1"),
    Bad("257 biases", chat_body(logit_bias={str(n): 1 for n in range(257)}), WRONG, "logit_bias"),
    Bad("max_tokens of 0", chat_body(max_tokens=0), WRONG, "max_tokens"),
    Bad("negative max_tokens", chat_body(max_tokens=-5), WRONG, "max_tokens"),
    Bad("max_tokens as text", chat_body(max_tokens="5"), WRONG, "max_tokens"),
    Bad(
        "negative max_completion_tokens", chat_body(max_completion_tokens=-1), WRONG, "max_completion_tokens"
    ),
    Bad("two limits", chat_body(max_tokens=1, max_completion_tokens=2), WRONG, "max_tokens"),
    Bad("empty stop", chat_body(stop=""), WRONG, "stop"),
    Bad("empty stop in a list", chat_body(stop=["a", ""]), WRONG, "stop[1]"),
    Bad("no stop in a list", chat_body(stop=[]), WRONG, "stop"),
    Bad("17 stops", chat_body(stop=["a"] * 17), WRONG, "stop"),
    Bad("stop as number", chat_body(stop=5), WRONG, "stop"),
    Bad("long stop", chat_body(stop="x" * 2000), WRONG, "stop"),
    Bad("top_logprobs alone", chat_body(top_logprobs=3), WRONG, "top_logprobs"),
    Bad("21 logprobs", chat_body(logprobs=True, top_logprobs=21), WRONG, "top_logprobs"),
    Bad("logprobs as number", chat_body(logprobs=3), WRONG, "logprobs"),
    Bad("two choices", chat_body(n=2), REFUSED, "n"),
    Bad("no choice", chat_body(n=0), WRONG, "n"),
    Bad("stream as text", chat_body(stream="yes"), WRONG, "stream"),
    Bad("stream_options alone", chat_body(stream_options={"include_usage": True}), WRONG, "stream_options"),
    Bad(
        "stream option nobody knows",
        chat_body(stream=True, stream_options={"usage": True}),
        UNKNOWN,
        "stream_options.usage",
    ),
    Bad("empty grammar", chat_body(grammar=""), WRONG, "grammar"),
]

FEATURES = [
    Bad("misspelt field", chat_body(temprature=1), UNKNOWN, "temprature"),
    Bad("field nobody knows", chat_body(zzz=None), UNKNOWN, "zzz"),
    Bad("functions", chat_body(functions=[]), REFUSED, "functions"),
    Bad("function_call", chat_body(function_call="auto"), REFUSED, "function_call"),
    Bad("spoken answer", chat_body(audio={"voice": "x"}), REFUSED, "audio"),
    Bad("audio modality", chat_body(modalities=["audio"]), WRONG, "modalities[0]"),
    Bad("prediction", chat_body(prediction={}), REFUSED, "prediction"),
    Bad("web search", chat_body(web_search_options={}), REFUSED, "web_search_options"),
    Bad("stored", chat_body(store=True), WRONG, "store"),
    Bad("flex tier", chat_body(service_tier="flex"), WRONG, "service_tier"),
    Bad("terse", chat_body(verbosity="low"), WRONG, "verbosity"),
    Bad("effort nobody knows", chat_body(reasoning_effort="huge"), WRONG, "reasoning_effort"),
    Bad("format as text", chat_body(response_format="json"), WRONG, "response_format"),
    Bad("format of unknown type", chat_body(response_format={"type": "xml"}), WRONG, "response_format"),
    Bad(
        "format without schema",
        chat_body(response_format={"type": "json_schema"}),
        WRONG,
        "response_format.json_schema",
    ),
    Bad(
        "schema without schema",
        chat_body(response_format={"type": "json_schema", "json_schema": {"name": "a"}}),
        WRONG,
        "response_format.json_schema.schema",
    ),
    Bad(
        "format's schema as text",
        chat_body(response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": "{}"}}),
        WRONG,
        "response_format.json_schema.schema",
    ),
    Bad(
        "grammar and form",
        chat_body(grammar="root ::= x", response_format={"type": "text"}),
        WRONG,
        "grammar",
    ),
    Bad("tools as object", chat_body(tools={}), WRONG, "tools"),
    Bad("tool without function", chat_body(tools=[{"type": "function"}]), WRONG, "tools[0].function"),
    Bad(
        "tool without name",
        chat_body(tools=[{"type": "function", "function": {}}]),
        WRONG,
        "tools[0].function.name",
    ),
    Bad("tool with a bad name", chat_body(tools=[_tool(name="a b")]), WRONG, "tools[0].function.name"),
    Bad(
        "tool schema as text",
        chat_body(tools=[_tool(parameters="{}")]),
        WRONG,
        "tools[0].function.parameters",
    ),
    Bad("foreign tool", chat_body(tools=[{"type": "web_search"}]), REFUSED, "tools[0].type"),
    Bad("custom tool", chat_body(tools=[_tool(), {"type": "custom"}]), REFUSED, "tools[1].type"),
    Bad("tools of one name", chat_body(tools=[_tool(), _tool()]), WRONG, "tools[1].function.name"),
    Bad("129 tools", chat_body(tools=[_tool(name=f"f{n}") for n in range(129)]), WRONG, "tools"),
    Bad("required without tools", chat_body(tool_choice="required"), WRONG, "tool_choice"),
    Bad("choice nobody knows", chat_body(tools=[_tool()], tool_choice="maybe"), WRONG, "tool_choice"),
    Bad(
        "choice of another tool",
        chat_body(tools=[_tool()], tool_choice={"type": "function", "function": {"name": "g"}}),
        WRONG,
        "tool_choice",
    ),
    Bad(
        "allowed tools",
        chat_body(tools=[_tool()], tool_choice={"type": "allowed_tools"}),
        REFUSED,
        "tool_choice.type",
    ),
    Bad(
        "tools and form",
        chat_body(tools=[_tool()], response_format={"type": "json_object"}),
        REFUSED,
        "response_format",
    ),
]

OTHERS = [
    Bad("no prompt", {"model": MODEL}, WRONG, "prompt", TEXT),
    Bad("null prompt", _text(prompt=None), WRONG, "prompt", TEXT),
    Bad("prompt as object", _text(prompt={}), WRONG, "prompt", TEXT),
    Bad("empty prompt list", _text(prompt=[]), WRONG, "prompt", TEXT),
    Bad("two prompts", _text(prompt=["a", "b"]), REFUSED, "prompt", TEXT),
    Bad("two token prompts", _text(prompt=[[1], [2]]), REFUSED, "prompt", TEXT),
    Bad("negative token", _text(prompt=[1, -1]), WRONG, "prompt[1]", TEXT),
    Bad("token outside", _text(prompt=[1_114_112]), WRONG, "prompt", TEXT),
    Bad("mixed prompt", _text(prompt=[1, "a"]), WRONG, "prompt[1]", TEXT),
    Bad("a million texts", _text(prompt=[1] + ["a"] * 100_000), WRONG, "prompt[1]", TEXT),
    Bad("best of two", _text(best_of=2), REFUSED, "best_of", TEXT),
    Bad("echo", _text(echo=True), REFUSED, "echo", TEXT),
    Bad("suffix", _text(suffix="."), REFUSED, "suffix", TEXT),
    Bad("logprobs as boolean", _text(logprobs=True), WRONG, "logprobs", TEXT),
    Bad("messages in completions", _text(messages=[]), UNKNOWN, "messages", TEXT),
    Bad("no input", {"model": MODEL}, WRONG, "input", RESPONSES),
    Bad("empty input", _response(input=[]), WRONG, "input", RESPONSES),
    Bad("item as text", _response(input=["x"]), WRONG, "input[0]", RESPONSES),
    Bad("foreign item", _response(input=[{"type": "web_search_call"}]), REFUSED, "input[0].type", RESPONSES),
    Bad(
        "image input",
        _response(input=[{"role": "user", "content": [{"type": "input_image"}]}]),
        FEATURE,
        "input[0].content[0]",
        RESPONSES,
    ),
    Bad(
        "previous response",
        _response(previous_response_id="resp_1"),
        REFUSED,
        "previous_response_id",
        RESPONSES,
    ),
    Bad("conversation", _response(conversation="conv_1"), REFUSED, "conversation", RESPONSES),
    Bad("background", _response(background=True), REFUSED, "background", RESPONSES),
    Bad("stored response", _response(store=True), WRONG, "store", RESPONSES),
    Bad("cut input", _response(truncation="auto"), WRONG, "truncation", RESPONSES),
    Bad("summary", _response(reasoning={"summary": "auto"}), REFUSED, "reasoning.summary", RESPONSES),
    Bad("include", _response(include=["file_search_call.results"]), WRONG, "include[0]", RESPONSES),
    Bad("hosted tool", _response(tools=[{"type": "file_search"}]), REFUSED, "tools[0].type", RESPONSES),
    Bad("max_tokens in responses", _response(max_tokens=5), UNKNOWN, "max_tokens", RESPONSES),
    Bad("embeddings of a chat model", {"model": MODEL, "input": "x"}, FEATURE, "model", EMBEDDINGS),
    Bad("dimensions", {"model": MODEL, "input": "x", "dimensions": 8}, REFUSED, "dimensions", EMBEDDINGS),
    Bad("empty text to embed", {"model": MODEL, "input": ""}, WRONG, "input", EMBEDDINGS),
    Bad("nothing to embed", {"model": MODEL, "input": []}, WRONG, "input", EMBEDDINGS),
    Bad("nothing to tokenize", {"model": MODEL}, WRONG, "content", TOKENIZE),
    Bad(
        "too much to tokenize",
        {"model": MODEL, "content": "x", "messages": [{}]},
        WRONG,
        "messages[0].role",
        TOKENIZE,
    ),
    Bad("token outside to detokenize", {"model": MODEL, "tokens": [2**31 - 1]}, WRONG, "tokens", DETOKENIZE),
]

ALL = [*BYTES, *TEXTS, *CHAT_FIELDS, *SAMPLING, *FEATURES, *OTHERS]

"""Checked bodies to a `GenerationRequest`: the one place where OpenAI's words become the engine's."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from meshllm_core.api.openai.schema_chat import ChatRequest
from meshllm_core.api.openai.schema_common import (
    ChatSchemaFormat,
    JsonObjectFormat,
    ResponsesSchemaFormat,
    SamplingFields,
    TextFormat,
)
from meshllm_core.api.openai.schema_messages import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
    text_of,
)
from meshllm_core.api.openai.schema_tools import FunctionTool, NamedChoice
from meshllm_core.engine.types import ModelFacts, Sampling
from meshllm_core.errors import InvalidRequest, UnsupportedField
from meshllm_core.serve.chat_template import RenderedPrompt, render_chat
from meshllm_core.serve.tools import ToolChoice, ToolSpec, callable_tools, constraint

_SEEDS = 2**32 - 1
"""llama.cpp's seeds have 32 bits, and the highest of them means a random one."""

AnyFormat = TextFormat | JsonObjectFormat | ChatSchemaFormat | ResponsesSchemaFormat


def sampling_of(body: SamplingFields, facts: ModelFacts) -> Sampling:
    """How to choose tokens. Raises InvalidRequest for a token that the vocabulary does not have."""
    given: dict[str, Any] = {
        "temperature": body.temperature,
        "top_p": body.top_p,
        "top_k": None if body.top_k is None else max(0, body.top_k),
        "min_p": body.min_p,
        "typical_p": body.typical_p,
        "repeat_penalty": body.repetition_penalty if body.repeat_penalty is None else body.repeat_penalty,
        "presence_penalty": body.presence_penalty,
        "frequency_penalty": body.frequency_penalty,
        "seed": None if body.seed is None else body.seed % _SEEDS,
    }
    biases = tuple((int(token), float(bias)) for token, bias in (body.logit_bias or {}).items())
    for token, _ in biases:
        if token >= facts.vocabulary:
            raise InvalidRequest(
                f"Token {token} is not in the vocabulary of {facts.vocabulary} tokens.",
                hint="Ask /v1/tokenize for the ids of a text.",
                param=f"logit_bias.{token}",
            )
    return Sampling(logit_bias=biases, **{name: value for name, value in given.items() if value is not None})


def schema_text(wanted: AnyFormat | None) -> str:
    """The JSON schema that an answer must follow, as text; empty for none."""
    match wanted:
        case None | TextFormat():
            return ""
        case JsonObjectFormat():
            return '{"type":"object"}'
        case ChatSchemaFormat():
            return _compact(wanted.json_schema.definition)
        case ResponsesSchemaFormat():
            return _compact(wanted.definition)


def _compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class Conversation:
    """What is said and what may be called, whichever route it came by."""

    messages: Sequence[Mapping[str, Any]]
    """In the shape that chat templates expect: text content, arguments as JSON text."""
    tools: Sequence[ToolSpec] = ()
    choice: ToolChoice = field(default_factory=ToolChoice)
    parallel: bool = True
    schema: str = ""
    """JSON schema of the answer as text."""
    schema_param: str = "response_format"
    """What the request called it."""
    effort: str | None = None
    enable_thinking: bool | None = None
    template_variables: Mapping[str, Any] | None = None

    async def render(self, facts: ModelFacts) -> RenderedPrompt:
        """The prompt as the model's own template writes it. Raises InvalidRequest."""
        # In a thread: a template is a program, and megabytes of conversation keep it busy for a second.
        return await asyncio.to_thread(self._render, facts, datetime.now().astimezone())

    def _render(self, facts: ModelFacts, now: datetime) -> RenderedPrompt:
        variables = dict(self.template_variables or {})
        thinking = self.enable_thinking
        if self.effort is not None:
            variables.setdefault("reasoning_effort", self.effort)
            thinking = False if self.effort == "none" and thinking is None else thinking
        return render_chat(
            facts.chat_template,
            self.messages,
            now=now,
            tools=() if self.choice.mode == "none" else self.tools,
            bos_text=facts.bos_text,
            eos_text=facts.eos_text,
            enable_thinking=thinking,
            chat_template_kwargs=variables or None,
        )

    def constraints(self, prompt: RenderedPrompt) -> dict[str, Any]:
        """Fields of a GenerationRequest that hold the answer to the tools or the schema."""
        tools = callable_tools(self.tools, self.choice)
        close = prompt.reasoning.close if prompt.reasoning and prompt.opened_reasoning else ""
        if self.schema and tools:
            raise UnsupportedField(
                f"'{self.schema_param}' with a JSON form cannot be combined with 'tools'.",
                hint="Send one of them, or tool_choice none.",
                param=self.schema_param,
            )
        if self.schema:
            # A thought that the prompt has opened stays free; the form begins after it.
            after = {"grammar_prefix": close, "grammar_triggers": (close,)} if close else {}
            return {"json_schema": self.schema, **after}
        if not tools:
            return {}
        rule = constraint(tools, self.choice, self.parallel, prompt.dialect, reasoning_close=close)
        if rule is None:
            return {}
        return {
            "json_schema": rule.json_schema,
            "grammar_prefix": rule.grammar_prefix,
            "grammar_suffix": rule.grammar_suffix,
            "grammar_triggers": rule.grammar_triggers,
        }


def chat_conversation(body: ChatRequest) -> Conversation:
    """The conversation of a chat request."""
    return Conversation(
        messages=[message_of(message) for message in body.messages],
        tools=[tool_of(tool) for tool in body.tools or []],
        choice=choice_of(body.tool_choice),
        parallel=body.parallel_tool_calls is not False,
        schema=schema_text(body.response_format),
        effort=body.reasoning_effort,
        enable_thinking=body.enable_thinking,
        template_variables=body.chat_template_kwargs,
    )


def stops_of(stop: str | list[str] | None) -> tuple[str, ...]:
    """Stop strings as a tuple."""
    if stop is None:
        return ()
    return (stop,) if isinstance(stop, str) else tuple(stop)


def tool_of(tool: FunctionTool) -> ToolSpec:
    """A tool as the rest of meshllm sees it."""
    function = tool.function
    return ToolSpec(
        name=function.name,
        description=function.description or "",
        parameters=function.parameters or {},
        strict=bool(function.strict),
    )


def choice_of(choice: str | NamedChoice | None) -> ToolChoice:
    """Whether a tool may, must or must not be called."""
    match choice:
        case NamedChoice():
            return ToolChoice("named", choice.function.name)
        case "none" | "required":
            return ToolChoice(choice)
        case _:
            return ToolChoice("auto")


def message_of(message: SystemMessage | UserMessage | AssistantMessage | ToolMessage) -> dict[str, Any]:
    """A message as chat templates expect it."""
    match message:
        case SystemMessage():
            result: dict[str, Any] = {"role": "system", "content": text_of(message.content)}
        case AssistantMessage():
            result = _assistant(message)
        case ToolMessage():
            result = {
                "role": "tool",
                "content": text_of(message.content),
                "tool_call_id": message.tool_call_id,
            }
        case UserMessage():
            result = {"role": "user", "content": text_of(message.content)}
    if message.name is not None:
        result["name"] = message.name
    return result


def _assistant(message: AssistantMessage) -> dict[str, Any]:
    result: dict[str, Any] = {
        "role": "assistant",
        "content": text_of(message.content) or message.refusal or "",
    }
    if message.reasoning_content:
        result["reasoning_content"] = message.reasoning_content
    if message.tool_calls:
        result["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.function.name,
                    "arguments": call.function.arguments.strip() or "{}",
                },
            }
            for call in message.tool_calls
        ]
    return result

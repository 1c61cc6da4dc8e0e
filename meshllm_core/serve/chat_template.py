"""A conversation -> the text that a model was trained to continue, by its GGUF's Jinja template. Pure."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

from jinja2 import Template, meta
from jinja2.exceptions import TemplateError

from meshllm_core.errors import InvalidRequest
from meshllm_core.serve.budget import Budget, TemplateTooCostly, spend
from meshllm_core.serve.conversation import (
    Messages,
    arguments_as_text,
    empty_for_null,
    merge_neighbours,
    plain_messages,
    rename_role,
    short_call_ids,
    system_into_user,
)
from meshllm_core.serve.reasoning import ReasoningTags, detect_reasoning
from meshllm_core.serve.sandbox import TemplateEnvironment
from meshllm_core.serve.tools import Dialect, ToolSpec, detect_dialect, special_markers
from meshllm_core.serve.tools.teaching import teach

CHATML = """\
{%- for message in messages -%}
{{ '<|im_start|>' + message['role'] + '\\n' + (message['content'] or '') + '<|im_end|>' + '\\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}
"""
"""The template of a model that brings none: OpenAI's ChatML, which most chat models have seen."""
_CHATML_STOPS = ("<|im_end|>", "<|im_start|>")

SOURCE_LIMIT = 512 << 10
"""Characters of a template; the longest in use have about 30,000."""
OUTPUT_LIMIT = 16 << 20
"""Characters of a prompt."""
_RESERVED = frozenset({"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"})
_FAILURES = (
    *(TemplateError, TypeError, ValueError, LookupError, ArithmeticError),
    *(AttributeError, RecursionError, AssertionError, SyntaxError, MemoryError),
)
"""What Python code made of a template may raise."""


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """A prompt, and what one must know to run it and to read the answer."""

    text: str
    adds_bos: bool
    """The text begins with BOS: the tokenizer must not add another (`add_special` is its opposite)."""
    opened_reasoning: bool
    """The text ends inside a thought: the answer begins with reasoning."""
    dialect: Dialect
    """How this model writes tool calls, as far as the prompt told it."""
    reasoning: ReasoningTags | None
    """The tags of the model's thoughts, if it thinks."""
    stops: tuple[str, ...] = ()
    """Stop strings to add to the client's own (the template was not the model's)."""
    visible_special: tuple[str, ...] = ()
    """For the field of the same name of a GenerationRequest."""


class _Refused(TemplateError):
    """The template itself refused the conversation (`raise_exception`)."""


@dataclass(frozen=True)
class _Compiled:
    template: Template
    dialect: Dialect | None
    """None: this model must be taught about tools."""
    reasoning: ReasoningTags | None
    knows_developer: bool


def render_chat(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    now: datetime,
    tools: Sequence[ToolSpec] = (),
    add_generation_prompt: bool = True,
    bos_text: str = "",
    eos_text: str = "",
    enable_thinking: bool | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
) -> RenderedPrompt:
    """Render `messages` (OpenAI's shape) with a template's source; empty `template` means ChatML.

    What a template objects to is put another way, as long as nothing is lost: a system message that it
    refuses or drops goes into the first user message, neighbours of one role are joined where roles must
    alternate, call ids and arguments take the form it wants. Tools that it does not know, or writes in a
    form not known here, are described in the system message instead. `now` is for templates that tell
    the date. Not quick for long conversations (up to a second for megabytes): keep it off the event loop.

    Raises InvalidRequest if the template fails, refuses the conversation or takes too much work.
    """
    source = template if template.strip() else CHATML
    extra = dict(chat_template_kwargs or {})
    if taken := sorted(_RESERVED & extra.keys()):
        raise InvalidRequest(
            f"chat_template_kwargs may not set {taken[0]!r}.",
            hint="It comes from the request or the model.",
            param="chat_template_kwargs",
        )
    compiled = _compile(source)
    dialect = compiled.dialect
    plain = plain_messages(messages)
    if not compiled.knows_developer:
        plain = rename_role(plain, "developer", "system")
    if dialect is None:
        plain = teach(plain, tools)
    variables: dict[str, Any] = {
        "tools": [tool.as_openai() for tool in tools] if tools and dialect is not None else None,
        "add_generation_prompt": add_generation_prompt,
        "bos_token": bos_text,
        "eos_token": eos_text,
        "strftime_now": lambda form: _strftime(now, form),
        **extra,
    }
    if enable_thinking is not None:
        variables["enable_thinking"] = enable_thinking
    text = _render(compiled.template, plain, variables)
    reasoning = compiled.reasoning
    return RenderedPrompt(
        text=text,
        adds_bos=bool(bos_text) and text.startswith(bos_text),
        opened_reasoning=bool(reasoning and add_generation_prompt and text.rstrip().endswith(reasoning.open)),
        dialect=dialect or Dialect.HERMES,
        reasoning=reasoning,
        stops=_CHATML_STOPS if source is CHATML else (),
        visible_special=_visible(dialect or Dialect.HERMES if tools else None, reasoning),
    )


def _visible(dialect: Dialect | None, reasoning: ReasoningTags | None) -> tuple[str, ...]:
    calls = special_markers(dialect) if dialect else ()
    return calls + ((reasoning.open, reasoning.close) if reasoning else ())


@lru_cache(maxsize=16)
def _compile(source: str) -> _Compiled:
    """Raises InvalidRequest."""
    if len(source) > SOURCE_LIMIT:
        raise _error(f"has {len(source)} characters; the limit is {SOURCE_LIMIT}")
    done = spend(Budget())
    try:
        variables = meta.find_undeclared_variables(_ENVIRONMENT.parse(source))
        template = _ENVIRONMENT.from_string(source)
    except _FAILURES as error:
        raise _error(f"cannot be read: {_detail(error)}") from error
    finally:
        done()
    return _Compiled(
        template=template,
        dialect=detect_dialect(source) if "tools" in variables else None,
        reasoning=detect_reasoning(source),
        knows_developer="developer" in source,
    )


_Adaptation = Callable[[Messages], Messages]
_OF_FORM: tuple[_Adaptation, ...] = (empty_for_null, arguments_as_text)
_OF_ROLES: tuple[_Adaptation, ...] = (
    short_call_ids,
    merge_neighbours,
    system_into_user,
    merge_neighbours,
)


def _render(template: Template, messages: Messages, variables: dict[str, Any]) -> str:
    """Render, adapting the messages until the template takes them. Raises InvalidRequest."""
    form, roles = list(_OF_FORM), list(_OF_ROLES)
    first: Exception | None = None
    while True:
        try:
            text = _run(template, messages, variables)
        except _FAILURES as error:
            first = first or error
            left = roles if isinstance(error, _Refused) else form
            adapted = _next_adaptation(left, messages)
            if adapted is None or isinstance(error, TemplateTooCostly):
                raise _render_error(first) from first
            messages = adapted
        else:
            return _with_system(template, text, messages, variables)


def _next_adaptation(left: list[_Adaptation], messages: Messages) -> Messages | None:
    """The messages after the next adaptation that changes them; None if none does."""
    while left:
        adapted = left.pop(0)(messages)
        if adapted != messages:
            return adapted
    return None


def _with_system(template: Template, text: str, messages: Messages, variables: dict[str, Any]) -> str:
    """Some templates drop a system message without a word: then it goes into the user's, if that keeps it."""
    wanted = [(m["content"] or "").strip() for m in messages if m["role"] == "system"]
    if all(part in text for part in wanted):
        return text
    try:
        moved = _run(template, system_into_user(messages), variables)
    except _FAILURES:
        return text
    return moved if all(part in moved for part in wanted) else text


def _run(template: Template, messages: Messages, variables: dict[str, Any]) -> str:
    done = spend(Budget())
    try:
        pieces: list[str] = []
        size = 0
        for piece in template.generate(variables, messages=messages):
            size += len(piece)
            if size > OUTPUT_LIMIT:
                raise TemplateTooCostly(f"the prompt would be longer than {OUTPUT_LIMIT} characters")
            pieces.append(piece)
    finally:
        done()
    return "".join(pieces)


def _render_error(error: Exception) -> InvalidRequest:
    if isinstance(error, _Refused):
        return InvalidRequest(
            f"The model's chat template refuses this conversation: {_detail(error)}.",
            hint="Change the order or the roles of the messages.",
            param="messages",
        )
    return _error(f"cannot render this conversation: {_detail(error)}")


def _error(what: str) -> InvalidRequest:
    return InvalidRequest(
        f"The model's chat template {what}.",
        hint="Use /v1/completions with a prompt of your own, or another file of this model.",
        param="messages",
    )


def _detail(error: Exception) -> str:
    text = " ".join(str(error).split())[:300].rstrip(".")
    return text if isinstance(error, (_Refused, TemplateTooCostly)) else f"{type(error).__name__}: {text}"


def _raise_exception(message: object) -> NoReturn:
    raise _Refused(str(message))


def _strftime(now: datetime, form: object) -> str:
    text = str(form)
    # The C library takes widths, and pads to them.
    if len(text) > 100 or any(character.isdigit() for character in text):
        raise ValueError("strftime_now takes a short format without widths")
    return now.strftime(text)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As `transformers` defines it: HTML is not escaped."""
    if indent is not None and not 0 <= indent <= 16:
        raise ValueError("tojson takes an indent from 0 to 16")
    if separators is not None and sum(map(len, separators)) > 8:
        raise ValueError("tojson takes short separators")
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _environment() -> TemplateEnvironment:
    environment = TemplateEnvironment()
    environment.add_filter("tojson", _tojson)
    environment.globals["raise_exception"] = _raise_exception
    return environment


_ENVIRONMENT = _environment()

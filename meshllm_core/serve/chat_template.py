"""A conversation -> the text that a model was trained to continue, by the Jinja template of its GGUF. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from meshllm_core.serve.reasoning import ReasoningTags
from meshllm_core.serve.tools import Dialect, ToolSpec


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

    Raises InvalidRequest if the template fails or refuses the conversation.
    """
    raise NotImplementedError

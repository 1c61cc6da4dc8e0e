"""`meshllm chat`: one question with its answer on stdout, or a conversation on a terminal."""

import contextlib
import sys
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from meshllm_core.api.client import ChatDelta, ManagementClient
from meshllm_core.cli.connect import ask
from meshllm_core.cli.diagnostics import report, say
from meshllm_core.cli.options import AsJson, Console
from meshllm_core.cli.output import clean, emit, emit_json, is_terminal, paint, write
from meshllm_core.errors import ConfigError, MeshError, PayloadTooLarge

INPUT_LIMIT = 3 << 20
"""Bytes of a piped prompt; the node's own limit for a whole request is a little more."""

Prompt = Annotated[
    str | None,
    typer.Argument(
        metavar="PROMPT", help="The question; piped text goes before it. Without: a conversation."
    ),
]
Model = Annotated[str, typer.Option("--model", "-m", metavar="NAME", help="The model that answers.")]
System = Annotated[str | None, typer.Option("--system", "-s", metavar="TEXT", help="The system message.")]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", metavar="N", min=1, help="Longest answer.")]
Temperature = Annotated[
    float | None, typer.Option("--temperature", metavar="N", min=0, max=2, help="0 is greedy.")
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="Makes an answer repeatable.")]


@dataclass
class Reply:
    """An answer as it grows."""

    speaker: str = ""
    """What is said before its first word: in a conversation it must be heard who speaks."""
    text: str = ""
    reasoning: str = ""
    last: dict[str, Any] = field(default_factory=dict)

    def take(self, delta: ChatDelta) -> None:
        """Adds a piece; later figures replace earlier ones."""
        self.text += delta.text
        self.reasoning += delta.reasoning
        figures = {
            "model": delta.model,
            "finish_reason": delta.finish_reason,
            "prompt_tokens": delta.prompt_tokens,
            "completion_tokens": delta.completion_tokens,
            "cached_tokens": delta.cached_tokens,
            "timings": dict(delta.timings),
        }
        self.last |= {name: value for name, value in figures.items() if value}

    def document(self) -> dict[str, Any]:
        """What `--json` prints."""
        known = self.last
        return {
            "model": known.get("model", ""),
            "content": self.text,
            "reasoning_content": self.reasoning,
            "finish_reason": known.get("finish_reason", ""),
            "usage": {
                "prompt_tokens": known.get("prompt_tokens", 0),
                "completion_tokens": known.get("completion_tokens", 0),
                "prompt_tokens_details": {"cached_tokens": known.get("cached_tokens", 0)},
            },
            "timings": known.get("timings", {}),
        }


def chat(
    prompt: Prompt = None,
    model: Model = "auto",
    system: System = None,
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    seed: Seed = None,
    as_json: AsJson = False,
    console: Console = "",
) -> None:
    """Ask the running node: one answer on stdout, or a conversation on a terminal."""
    options = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed}
    messages = [{"role": "system", "content": system}] if system else []
    question = _question(prompt)
    if question is None:
        if as_json:
            raise ConfigError("--json needs a question.", hint='For example: meshllm chat --json "Hello".')
        _converse(messages, model, options, console)
        return
    messages.append({"role": "user", "content": question})
    reply = _answer(messages, model, options, console, quiet=as_json)
    if as_json:
        emit_json(reply.document())


def _question(prompt: str | None) -> str | None:
    """The prompt with what is piped before it; None when a person sits there and asked nothing yet."""
    if sys.stdin is None or sys.stdin.isatty():
        return prompt
    raw = sys.stdin.buffer.read(INPUT_LIMIT + 1)
    if len(raw) > INPUT_LIMIT:
        raise PayloadTooLarge(f"The piped text is larger than {INPUT_LIMIT >> 20} MiB.", hint="Pipe less.")
    piped = raw.decode("utf-8", "replace").strip()
    question = "\n\n".join(part for part in (piped, prompt or "") if part)
    if not question:
        raise ConfigError("There is no question.", hint='Give one: meshllm chat "Hello", or pipe a text in.')
    return question


def _converse(messages: list[dict[str, str]], model: str, options: dict[str, Any], console: str) -> None:
    with contextlib.suppress(ImportError):
        # Gives `input` line editing and a history; not on every platform.
        import readline  # noqa: F401
    say("Ctrl+C stops an answer, Ctrl+D ends the conversation.")
    while True:
        try:
            question = input("You: ").strip()
        except (EOFError, KeyboardInterrupt):
            say("")
            return
        if not question:
            continue
        asked = [*messages, {"role": "user", "content": question}]
        reply = Reply(speaker="Assistant: ")
        try:
            _answer(asked, model, options, console, reply=reply)
        except KeyboardInterrupt:
            emit()
            say("(stopped)")
        except MeshError as error:
            report(error)
        if reply.text:
            messages = [*asked, {"role": "assistant", "content": reply.text}]


def _answer(
    messages: list[dict[str, str]],
    model: str,
    options: dict[str, Any],
    console: str,
    *,
    reply: Reply | None = None,
    quiet: bool = False,
) -> Reply:
    """Streams one answer to stdout; its reasoning only where a person looks, for it is not the answer."""
    found = reply if reply is not None else Reply()

    async def streaming(client: ManagementClient) -> None:
        pieces = client.chat_stream(messages, model, **options)
        async with contextlib.aclosing(pieces):
            async for delta in pieces:
                _show(delta, found, quiet)
                found.take(delta)

    ask(streaming, console=console)
    if not quiet:
        if not found.text.endswith("\n"):
            emit()
        _say_figures(found)
    return found


def _show(delta: ChatDelta, so_far: Reply, quiet: bool) -> None:
    if quiet:
        return
    if delta.reasoning and is_terminal():
        if not so_far.reasoning:
            emit(paint("(thinking)", "muted"))
        write(paint(clean(delta.reasoning), "muted"))
    if delta.text:
        if so_far.reasoning and not so_far.text and is_terminal():
            emit("\n")
        if so_far.speaker and not so_far.text:
            write(so_far.speaker)
        write(clean(delta.text) if is_terminal() else delta.text)


def _say_figures(reply: Reply) -> None:
    if not sys.stderr.isatty():
        return
    speed = reply.last.get("timings", {}).get("predicted_per_second")
    words = [f"{reply.last.get('model', '')}", f"{reply.last.get('completion_tokens', 0)} tokens"]
    words += [f"{speed:.1f} tok/s"] if speed else []
    words += ["cut at the length limit"] if reply.last.get("finish_reason") == "length" else []
    say(f"({', '.join(word for word in words if word)})")

"""What the chat says of an answer, and conversations as text to copy. No Textual here."""

import re
from collections.abc import Iterable

from meshllm_core.state.snapshot import ModelView, NodeSnapshot
from meshllm_core.state.split_events import StageRow
from meshllm_tui.cleaning import cells, clean, one_line
from meshllm_tui.conversation import Answer, Conversation
from meshllm_tui.present import Line, Span, line, muted
from meshllm_tui.units import count, milliseconds, number

_STAGES_NAMED = 6
_NAME = 40
_AGAIN = "r asks again"


def figures(answer: Answer) -> Line:
    """The line below an answer: its state in words, tokens, speed, first token."""
    if answer.state == "waiting":
        return line(Span("◌ waiting for the first token…", "accent"), muted("  Esc stops it"))
    parts = {
        "streaming": Span("◐ answering", "accent"),
        "done": muted("● done"),
        "stopped": Span("■ stopped", "warn"),
        "failed": Span("✗ failed", "bad"),
    }
    words = []
    if answer.completion_tokens:
        words.append(count(answer.completion_tokens, "token"))
    if answer.tokens_per_second:
        words.append(f"{number(answer.tokens_per_second)} tok/s")
    if answer.first_at:
        words.append(f"first token {milliseconds(answer.first_token_ms)}")
    if answer.state == "streaming":
        words.append("Esc stops it")
    if answer.state in ("stopped", "failed"):
        words.append(_AGAIN)
    if answer.finish_reason == "length":
        words.append("cut at the length limit")
    return line(parts[answer.state], muted("".join(f"  {word}" for word in words)))


def figure_lines(answer: Answer, width: int) -> tuple[Line, ...]:
    """The figures in lines of at most `width` cells, never broken within one."""
    state, rest = figures(answer)[0], figures(answer)[1:]
    lines: list[list[Span]] = [[state]]
    used = cells(state.text)
    for word in "".join(span.text for span in rest).split("  "):
        if word and used + 2 + cells(word) > width:
            lines.append([muted(word)])
            used = cells(word)
        elif word:
            lines[-1].append(muted(f"  {word}"))
            used += 2 + cells(word)
    return tuple(map(tuple, lines))


def how_answered(snapshot: NodeSnapshot | None, model: str, served_by: str) -> str:
    """Who computes `model`'s answers now, and by which stages: one line, empty while that is not known."""
    if snapshot is None:
        return ""
    name = one_line(model, 80)
    if served_by:
        who = f"{name}, answered by {one_line(served_by, _NAME)}"
        hosted = (each for each in snapshot.hosted_stages if each.model == model)
        stage = next((each for each in hosted if each.coordinator == served_by), None)
        if stage is None:
            return f"{who}, which does not tell whether it is split"
        return f"{who}, split into {count(stage.stages, 'stage')}; stage {stage.index + 1} was computed here"
    view = next((each for each in snapshot.models if each.id == model), None)
    if view is None:
        return ""
    return f"{name}, {_own(view, one_line(snapshot.name, _NAME))}"


def _own(view: ModelView, node: str) -> str:
    if view.split is None:
        device = one_line(view.device, 60)
        return f"answered by {node or 'this node'}" + (f" on {device}" if device else "")
    stages = view.split.stages
    named = " → ".join(map(_stage, stages[:_STAGES_NAMED]))
    more = f" and {len(stages) - _STAGES_NAMED} more" if len(stages) > _STAGES_NAMED else ""
    return f"{count(len(stages), 'stage')}: {named}{more}"


def _stage(row: StageRow) -> str:
    name = one_line(row.node_name, _NAME) or one_line(row.node, 8)
    return f"{name} layers {row.start}–{row.end - 1}"


def code_blocks(text: str) -> list[str]:
    """The code blocks of a Markdown text, without their fences."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").parse(text)
    return [token.content.rstrip("\n") for token in tokens if token.type in ("fence", "code_block")]


def as_markdown(conversation: Conversation) -> str:
    """The whole conversation as one Markdown document."""
    parts = [f"# {conversation.title or 'Conversation'}"]
    if conversation.system:
        parts.append(f"## System prompt\n\n{clean(conversation.system)}")
    for turn in conversation.turns:
        parts.append(f"## Question\n\n{clean(turn.question, 1_000_000)}")
        answer = turn.answer
        body = answer.text.strip() or "*No answer.*"
        error = f"\n\n*{one_line(f'{answer.error} {answer.hint}')}*" if answer.error else ""
        parts.append(f"## Answer of {one_line(answer.model, 80)}\n\n{body}{error}\n\n{_foot(answer)}")
    return "\n\n".join(parts) + "\n"


def _foot(answer: Answer) -> str:
    words = "".join(span.text for span in figures(answer)).replace(f"  {_AGAIN}", "")
    return f"*{answer.how + '; ' if answer.how else ''}{words}*"


def file_name(title: str) -> str:
    """A file's name made from a title: letters, digits and dashes."""
    words = re.findall(r"\w+", title.lower())
    return "-".join(words)[:60].strip("-") + ".md" if words else "conversation.md"


def title_of(words: Iterable[str]) -> str:
    """The first of `words` that says something."""
    return next((each for each in words if each), "New conversation")

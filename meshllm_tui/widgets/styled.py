"""Presented lines as Textual content. Text is passed as text: nothing in it is read as markup."""

from collections.abc import Iterable

from textual.content import Content

from meshllm_tui.present import Line, Tone

_STYLES: dict[Tone, str] = {
    "plain": "",
    "muted": "$muted",
    "ok": "$ok",
    "warn": "$warn",
    "bad": "$bad",
    "accent": "$accent-text",
    "strong": "bold $foreground",
}


def content(lines: Iterable[Line]) -> Content:
    """The lines below each other."""
    return Content("\n").join(
        Content.assemble(*((span.text, _STYLES[span.tone]) for span in each)) for each in lines
    )

"""What connects other programs to this node, for the screen. No Textual here."""

import os

from meshllm_core.api.snippets import ANY_MODEL, APPS_BY_NAME, KEY_VARIABLE, App, Connection
from meshllm_tui.chat_models import chat_models
from meshllm_tui.cleaning import clean
from meshllm_tui.present import Line, NodeView, Span, endpoint, line, link_words, muted, waiting_lines


def connection(view: NodeView) -> Connection | None:
    """What a program has to know; None until the node has answered.

    The dashboard is told the endpoint's key in its environment where there is one.
    """
    if view.snapshot is None or not view.snapshot.api_url:
        return None
    models = chat_models(view.snapshot)
    model = str(models[0].id) if models else ANY_MODEL
    return Connection(endpoint(view.snapshot), model, bool(os.environ.get(KEY_VARIABLE)))


def snippet(view: NodeView, app: str) -> str:
    """The text for an app, or nothing while there is no node."""
    to = connection(view)
    return clean(APPS_BY_NAME[app].write(to)) if to else ""


def snippet_lines(view: NodeView, app: App) -> tuple[Line, ...]:
    """Where the text belongs, the text, and what is still missing."""
    to = connection(view)
    if to is None:
        return waiting_lines(view)
    lines: list[Line] = [line(Span(app.where, "strong")), ()]
    lines += [line(text) for text in snippet(view, app.name).rstrip("\n").split("\n")]
    notes = [link_words(view)] if view.link != "live" else []
    if to.model == ANY_MODEL:
        notes.append(line(muted("No model is ready to chat; `auto` takes the first that will be.")))
    if to.key_wanted:
        notes.append(line(muted(f"The key is in the variable {KEY_VARIABLE}; it is never shown.")))
    return (*lines, *([()] if notes else []), *notes)

"""An invite's QR code as Textual draws it."""

import asyncio

from textual.content import Content
from textual.dom import DOMNode
from textual.style import Style

from meshllm_core.api.schema_mesh import InviteAnswer
from meshllm_tui.invite_page import Code, save_picture


def code_content(code: Code) -> Content:
    """Black on white, whatever the theme: many readers find no code that is light on dark."""
    ink = Style.parse("#000000 on #ffffff")
    return Content("\n").join(Content.styled(each, ink) for each in code.lines)


async def save_code(teller: DOMNode, made: InviteAnswer) -> None:
    """Save the code as a picture in the home directory, and say where."""
    try:
        path = await asyncio.to_thread(save_picture, made.token, made.id)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        teller.app.notify(f"The picture was not saved: {reason}.", severity="error", markup=False)
    else:
        teller.app.notify(f"Saved ~/{path.name}. Whoever sees it can join.", markup=False)

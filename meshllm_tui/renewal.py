"""Another node answers in place of the one before: nothing that was asked of that one stays on the screen."""

from functools import partial
from typing import TYPE_CHECKING

from meshllm_tui.actions.pages import PAGES

if TYPE_CHECKING:
    from meshllm_tui.app import MeshApp

_KEPT = ("mesh", "chat")
"""Pages that show snapshots, which are the new node's already, and conversations, which are the person's."""


async def renew_pages(app: "MeshApp") -> None:
    """Close dialogs about the node before, make the pages anew that asked it, open the same page again."""
    page = app.page.NAME
    while len(app.screen_stack) > 1:
        await app.pop_screen()
    await app.open(PAGES[0].name)
    for each in PAGES:
        if each.name not in _KEPT:
            await app.remove_mode(each.name)
            app.add_mode(each.name, partial(app.make_page, each.made_by))
    await app.open(page)
    app.fit(app.size)

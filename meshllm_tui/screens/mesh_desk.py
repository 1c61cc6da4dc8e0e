"""What a person does with the mesh: each question is asked first, then put to the node."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Literal, Protocol

from textual.screen import Screen

from meshllm_core.state.mesh_events import PeerRow, WaitingRow
from meshllm_core.state.snapshot import MeshView
from meshllm_tui.cleaning import fit, one_line
from meshllm_tui.mesh_words import mesh_name, name_of, short_id
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.screens.member import MemberScreen
from meshllm_tui.screens.public import Listing, PublicScreen
from meshllm_tui.session import Session

NAMED = 12
"""Members that are named in a question; how many more there are is said."""


class Asker(Protocol):
    """The dashboard, as far as the mesh is concerned."""

    def push_screen(self, screen: Screen[Any], callback: Callable[[Any], None] | None = None) -> object:
        """Show a screen over the others; `callback` gets its result."""

    def act(self, name: str, done: str, /, **arguments: object) -> None:
        """Ask the node for an action; `done` is said when it did it."""

    def notify(
        self, message: str, *, severity: Literal["information", "warning", "error"], markup: bool
    ) -> None:
        """Tell something for a while."""

    def run_asking(self, what: str, asking: Coroutine[None, None, None]) -> None:
        """Do something that asks the node; a refusal is told."""


class MeshDesk:
    """Opens the mesh's dialogs."""

    def __init__(self, app: Asker, session: Session) -> None:
        self._app = app
        self._session = session

    def lending(self) -> None:
        """Pause lending, or lend again."""
        snapshot = self._session.snapshot
        paused = snapshot is not None and snapshot.lending_paused
        if paused:
            done = "This machine lends again."
        else:
            done = "Lending is paused until p or a restart; what runs for others is let run."
        self._app.act("lending", done, on=paused)

    def do(self, what: str, row: PeerRow | None) -> None:
        """Something that the mesh pane asks for."""
        snapshot = self._session.snapshot
        mesh = snapshot.mesh if snapshot is not None else None
        if mesh is None:
            return
        if what == "leave_mesh":
            self._leave(mesh)
        elif what == "admit" and mesh.waiting:
            self._admit(mesh.waiting[0])
        elif row is not None and what == "details":
            self._app.push_screen(MemberScreen(self._session.view, row.node))
        elif row is not None and what == "revoke":
            self._app.run_asking("revoke", self._revoke(row))
        elif row is not None and what == "forget":
            self._forget(row)
        elif row is not None and what == "block":
            self._block(row, mesh)

    def _ask(self, question: str, text: str, yes: str, then: Callable[[], None]) -> None:
        answers = (("cancel", "Cancel"), ("yes", yes))
        self._app.push_screen(AskScreen(question, text, answers), partial(_if_yes, then))

    def _leave(self, mesh: MeshView) -> None:
        text = (
            "This node goes on by itself: the others lose its models, and its apps lose theirs. "
            "To come back it needs a new invite."
        )
        snapshot = self._session.snapshot
        if mesh.founder and snapshot is not None and any(row.status == "alive" for row in snapshot.peers):
            text += " The mesh stays for the others; members that may invite can go on doing so."
        done = f"Left the mesh {mesh_name(mesh)}."
        self._ask(
            f"Leave the mesh {fit(mesh_name(mesh), 40)}?",
            text,
            "Leave it",
            lambda: self._app.act("leave", done),
        )

    async def _revoke(self, row: PeerRow) -> None:
        """The node knows who would go with it: it is asked before the person is."""
        told = await self._session.act("revoke", target=row.node, confirm=False)
        name = fit(name_of(row), 40)
        names = told.get("revoked")
        going = [one_line(str(each), 30) for each in names] if isinstance(names, list) else []
        others = [each for each in going if each != one_line(row.name, 30)]
        text = f"{name} is shut out: no member talks to it any more."
        if others:
            more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
            text += f"\n\nIt let others in, and they go with it: {', '.join(others[:NAMED])}{more}."
        text += "\n\nTo come back, a machine needs a new invite."
        done = f"Revoked {name}" + (f" and {len(others)} that it let in." if others else ".")
        then = partial(self._app.act, "revoke", done, target=row.node, confirm=True)
        self._ask(f"Revoke {name}?", text, "Revoke", then)

    def _admit(self, row: WaitingRow) -> None:
        name, node = fit(row.name, 40) or short_id(row.node), one_line(row.node, 64)
        text = (
            f"It calls itself {name}, which proves nothing. This id it has proved; compare it with what "
            f"`meshllm id` says there:\n\n{node[:32]}\n{node[32:]}\n\n"
            f"It came from {one_line(row.address, 60)} "
            f"with the invite {one_line(row.invite, 10)} and wants to be a {row.role}."
        )
        answers = (("cancel", "Decide later"), ("refuse", "Refuse"), ("approve", "Let it in"))

        def decided(answer: str | None) -> None:
            if answer in ("approve", "refuse"):
                done = f"{name} is let in." if answer == "approve" else f"{name} is not let in."
                self._app.act(answer, done, node=row.node)

        self._app.push_screen(AskScreen(f"Let {name} in?", text, answers), decided)

    def _block(self, row: PeerRow, mesh: MeshView) -> None:
        name = fit(name_of(row), 40)
        if row.node in mesh.blocked:
            self._app.act("unblock", f"{name} is no longer blocked.", node=row.node)
            return
        text = (
            "This node neither links nor routes to it, whatever it asks, also after a restart. What one "
            "computes for the other now ends. It stays a member for the others: Revoke shuts it out of the "
            "mesh. b takes the block back."
        )
        then = partial(self._app.act, "block", f"{name} is blocked here.", node=row.node)
        self._ask(f"Block {name}?", text, "Block", then)

    def _forget(self, row: PeerRow) -> None:
        name = fit(name_of(row), 40)
        text = "It is no longer listed here. It stays a member: when it comes back, it is listed again."
        then = partial(self._app.act, "forget", f"{name} is no longer listed.", node=row.node)
        self._ask(f"Forget {name}?", text, "Forget", then)

    def public(self) -> None:
        """List the mesh publicly, or take the listing back; asks first."""
        snapshot = self._session.snapshot
        mesh = snapshot.mesh if snapshot is not None else None
        if snapshot is None or mesh is None:
            words = "This node is in no mesh that could be listed: v invites a machine, which founds one."
            self._app.notify(words, severity="warning", markup=False)
        elif mesh.publication in ("public", "publishing"):
            text = (
                "The listing goes from the relays within two minutes, and nobody new can join without an "
                "invite. Clients that came in by the listing may stay until they leave or you revoke them."
            )
            then = partial(self._app.act, "public", "The mesh is private again.", on=False)
            self._ask("Take the public listing back?", text, "Make it private", then)
        else:
            self._app.push_screen(PublicScreen(snapshot), self._list)

    def _list(self, listing: Listing | None) -> None:
        if listing is not None:
            self._app.act(
                "public",
                "The mesh is being listed.",
                on=True,
                name=one_line(listing.name) or None,
                region=one_line(listing.region) or None,
                max_clients=listing.max_clients,
            )


def _if_yes(then: Callable[[], None], answer: str | None) -> None:
    if answer == "yes":
        then()

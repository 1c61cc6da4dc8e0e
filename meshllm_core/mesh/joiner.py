"""Joining a mesh from the outside: by an invite, at the start of the node, or a public one."""

import asyncio
import logging
from typing import TYPE_CHECKING

from meshllm_core.discovery.score import Wants
from meshllm_core.discovery.token import Invite, decode
from meshllm_core.errors import AlreadyInMesh, JoinFailed, JoinRefused, MeshError, MeshNetworkError, describe
from meshllm_core.ids import short
from meshllm_core.mesh.approvals import DECIDE_SECONDS
from meshllm_core.mesh.checklist import Checklist
from meshllm_core.mesh.join import Joining, Wanted
from meshllm_core.mesh.public import TRIED, AutoJoin, nothing, wanted_from
from meshllm_core.mesh.session import Session
from meshllm_core.mesh.storage import MeshState
from meshllm_core.wire.announcement import Address, Role

if TYPE_CHECKING:
    from meshllm_core.mesh.service import MeshService

log = logging.getLogger(__name__)

ASK_AGAIN_SECONDS = 3.0
"""Between two tries of a node that waits to be let in."""


class Joiner:
    """One try at a time."""

    def __init__(self, service: "MeshService") -> None:
        self.service = service
        self.checklist = Checklist(service.environment.append, service.environment.clock)
        self._joining: asyncio.Task[None] | None = None
        self.waiting = False
        """Whether a person has to let this node in, and has not yet."""

    async def stop(self) -> None:
        """Gives up the try that runs, if one does."""
        if self._joining is not None:
            self._joining.cancel()
            await asyncio.gather(self._joining, return_exceptions=True)

    def begin(self, text: str) -> None:
        """Begins to join by an invite; the checklist in the events tells how it goes.

        Raises JoinFailed when a join runs already or the node is in a mesh.
        """
        self._may_join()
        self._joining = asyncio.create_task(self._join_by(text), name="join")

    async def by_invite(self, wanted: Wanted, how: str) -> None:
        """Joins; the checklist is told and what went wrong is raised. Raises JoinRefused, JoinFailed."""
        self._may_join()
        self.checklist.start(how)
        with self.checklist.attempt():
            await self._until_decided(wanted)

    @property
    def running(self) -> bool:
        """Whether a join that was asked for is under way."""
        return self._joining is not None and not self._joining.done()

    def _may_join(self) -> None:
        self.service.check_running()
        if self.running:
            raise AlreadyInMesh(
                "A join is running already.", hint="Wait for it to end: it takes a few seconds."
            )
        self._check_free()

    def _check_free(self) -> None:
        if self.service.session is not None:
            state = self.service.session.state
            raise AlreadyInMesh(
                f"This node is in the mesh {state.name or short(state.mesh)} already.",
                hint="A node is in one mesh at a time: `meshllm leave` first.",
            )
        if self.service.environment.store.exists():
            raise AlreadyInMesh(
                "This node is a member of a mesh that it could not enter when it started.",
                hint="`meshllm logs` says why. Start it again, or give the membership up: `meshllm leave`.",
            )

    async def _join_by(self, text: str) -> None:
        self.checklist.start("by invite")
        try:
            with self.checklist.attempt():
                self.checklist.run("token")
                await self._until_decided(wanted_of(decode(text), self.service.environment.options.role))
        except MeshError as error:
            log.info("join failed: %s", describe(error))

    async def _until_decided(self, wanted: Wanted) -> None:
        """Joins; where a person is asked there first, asks again until that person has decided.

        Between two tries nothing is held: this node can found a mesh meanwhile, or give up.
        """
        clock = self.service.environment.clock
        until = clock.monotonic() + DECIDE_SECONDS
        said = ""
        try:
            while True:
                try:
                    return await self._join(wanted)
                except JoinRefused as error:
                    if error.reason != "waiting":
                        raise
                    if clock.monotonic() > until:
                        raise JoinFailed(
                            f"Nobody decided for {DECIDE_SECONDS / 60:.0f} minutes: {error.message}.",
                            step="admission",
                            hint=error.hint,
                        ) from None
                    if said != (said := error.message):
                        self.checklist.wait(said)
                self.waiting = True
                await asyncio.sleep(ASK_AGAIN_SECONDS)
        finally:
            self.waiting = False

    async def give_up(self) -> None:
        """Waits no longer for a person to decide."""
        await self.stop()
        self.checklist.end(
            joined=False, message="Joining was given up.", hint="The invite can be used again."
        )

    async def _join(self, wanted: Wanted) -> None:
        async with self.service.turn:
            # A mesh may have been founded while this waited for its turn.
            self._check_free()
            env = self.service.environment
            me = self.service.greeter.me
            me.role = wanted.role
            # It may have been installed because the last try was refused.
            me.owner = env.owners.certificate()
            sockets = await self.service.listen()
            interfaces, _ = env.interfaces(env.options.bind_ip)
            port = sockets.transport.port
            self.service.greeter.me.addresses = tuple(
                Address(i.address, port) for i in interfaces if sockets.takes(i.address)
            )
            joining = Joining(
                sockets.transport,
                self.service.greeter,
                self.checklist,
                interfaces,
                self.service.surroundings.addresses_of,
            )
            try:
                admitted = await joining.join(wanted)
                state = MeshState(mesh=admitted.mesh, name=admitted.mesh_name, chain=admitted.chain)
                session = await self.service.enter(state, admitted)
            except BaseException:
                if self.service.session is None:
                    self.service.introduce_as_nobody()
                    await self.service.close_sockets()
                raise
            members = len(session.roster.members())
            self.checklist.passed("admission", f"as {wanted.role}, one of {members} members")
            await self._check_reach(session)
            name = state.name or f"the mesh {short(state.mesh)}"
            self.checklist.end(joined=True, message=f"This node is a member of {name} now.")

    async def _give_up(self) -> None:
        """A node that is in no mesh has no open port for one."""
        async with self.service.turn:
            if self.service.session is None:
                await self.service.close_sockets()

    async def _check_reach(self, session: Session) -> None:
        """The last line: whether others reach this node. It never fails a join."""
        self.checklist.run("reachability")
        reach = await session.presence.first_reach()
        if reach is None or reach.udp is None:
            self.checklist.skipped("reachability", "nobody could tell whether others reach this node")
        elif reach.udp:
            tcp = "" if reach.tcp else " by UDP; TCP is blocked, so large data goes a slower way"
            self.checklist.passed("reachability", f"others reach this node{tcp}")
        else:
            self.checklist.passed(
                "reachability", "outgoing only: this node reaches others, nobody reaches it unasked"
            )

    async def public(self, wants: Wants) -> None:
        """Finds a public mesh and joins it, the best first. Raises JoinFailed, JoinRefused."""
        self._may_join()
        async with self.service.turn:
            sockets = await self.service.listen()
        self.checklist.start("a public mesh")
        with self.checklist.attempt():
            self.checklist.run("token", "asking the relays for public meshes")
            found = await AutoJoin(self.service.environment, sockets.transport).find(wants)
            if not found.ranked:
                await self._give_up()
                raise nothing(found)
            for scored in found.ranked[:TRIED]:
                try:
                    return await self._join(wanted_from(scored, self.service.environment.options.role))
                except MeshNetworkError as error:
                    last = error
                    self.service.environment.notice(
                        "warning", f"{scored.listing.name or 'a mesh'}: {error.message}"
                    )
            raise last


def wanted_of(invite: Invite, role: Role) -> Wanted:
    """Whom an invite asks, for a node that wants this role; an invite for clients makes a client."""
    return Wanted(
        node=invite.node,
        addresses=tuple(Address(place.host, place.port) for place in invite.addresses),
        role="client" if invite.role == "client" else role,
        secret=invite.secret,
        mesh_prefix=invite.mesh,
        expires_at=invite.expires_at,
    )

"""What a node without a dashboard says of the mesh at the terminal, and what it keeps for the log."""

import asyncio

from meshllm_core.node.runtime import _speak
from meshllm_core.node.store import EventStore
from meshllm_core.state import events as ev
from meshllm_core.state import mesh_events as mev


def peer(status: mev.PeerStatus) -> mev.PeerUpdated:
    """Another member's row."""
    row = mev.PeerRow(node="cd" * 32, name="attic", status=status, role="host", since=1.0)
    return mev.PeerUpdated(at=5.0, peer=row)


async def test_joining_and_members_are_told_each_change_once() -> None:
    store, said = EventStore(), list[str]()
    speaking = asyncio.create_task(_speak(store, said.append))
    for _ in range(3):
        store.append(mev.JoinStarted(at=1.0, how="by the invite given at the start"))
        store.append(mev.JoinEnded(at=2.0, joined=False, message="Nobody answered.", hint="Look there."))
        await asyncio.sleep(0.01)
    store.append(mev.JoinStarted(at=3.0, how="by the invite given at the start"))
    store.append(mev.JoinEnded(at=4.0, joined=True, message="This node is a member of den now."))
    for status in ("alive", "alive", "suspect", "down", "down", "alive"):
        store.append(peer(status))
    store.append(ev.NoticeLogged(at=6.0, level="info", source="disk", text="full"))
    await asyncio.sleep(0.05)
    speaking.cancel()
    await asyncio.gather(speaking, return_exceptions=True)
    assert said == [
        "mesh: Nobody answered. Look there.",
        "mesh: This node is a member of den now.",
        "mesh: attic is in the mesh",
        "mesh: attic does not answer",
        "mesh: attic is gone: it stopped answering",
        "mesh: attic is back",
        "disk: full",
    ]
    assert [f"{notice.source}: {notice.text}" for notice in store.snapshot.notices] == said
    store.close()

"""What a node gives to its mesh: key, settings, clock, entropy, where events go and where things are kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import NodeId
from meshllm_core.mesh.announce import Local
from meshllm_core.mesh.counters import Refusals
from meshllm_core.mesh.options import MeshOptions
from meshllm_core.mesh.owner_store import OwnerStore
from meshllm_core.mesh.reach import TcpAnswers, tcp_answers
from meshllm_core.mesh.storage import MeshStore
from meshllm_core.state.event import NoticeLevel
from meshllm_core.state.events import AnyEvent, NoticeLogged
from meshllm_core.transport.interfaces import Interface, LeftOut, usable
from meshllm_core.transport.link import Channel, Clock


@dataclass(frozen=True)
class Environment:
    """One per process."""

    key: SigningKey
    instance: bytes
    """8 random bytes, drawn at the start of the process."""
    incarnation: int
    options: MeshOptions
    clock: Clock
    entropy: Callable[[int], bytes]
    random: Callable[[], float]
    append: Callable[[AnyEvent], None]
    local: Callable[[], Local]
    on_call: Callable[[NodeId, Channel], None]
    """A member opened a CALL or a TRANSFER channel."""
    store: MeshStore
    owners: OwnerStore
    refusals: Refusals
    nostr_key: Path
    """Where the key for public relays is kept; made at the first publication."""
    interfaces: Callable[[Sequence[str]], tuple[list[Interface], list[LeftOut]]] = usable
    """What may be told to others of this machine's addresses, for what `--bind-ip` names."""
    tcp_answers: TcpAnswers = tcp_answers

    def notice(self, level: NoticeLevel, text: str) -> None:
        """A line for a person."""
        self.append(NoticeLogged(at=self.clock.time(), level=level, source="mesh", text=text))

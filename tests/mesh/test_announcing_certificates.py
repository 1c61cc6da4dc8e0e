"""How many certificates of codecs an announcement names, and when that is news."""

import pytest

from meshllm_core.identity.keys import SigningKey
from meshllm_core.mesh.announce import CALM_SECONDS, Announcer, Local
from meshllm_core.mesh.greeting import Me
from meshllm_core.wire import limits
from tests.mesh.members import SkewedClock

HASHES = tuple(bytes([number]) * 32 for number in range(limits.CODEC_CERTIFICATES + 8))


class Hand(SkewedClock):
    """A clock that a test moves."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Told:
    """An announcer of a node with these certificates, in a mesh of so many."""

    def __init__(self, members: int = 2) -> None:
        self.clock, self.claims = Hand(), HASHES
        me = Me(SigningKey(b"a" * 32), bytes(8), "a", "host", "1")
        self.announcer = Announcer(me, self.clock, 1, self._local, dict, lambda: members)

    def _local(self) -> Local:
        return Local(memory_total=1, memory_free=1, devices=(), models=(), codec_certificates=self.claims)


@pytest.mark.parametrize(("members", "named"), [(0, 32), (1, 32), (64, 32), (256, 8), (1000, 2), (4096, 2)])
def test_in_a_large_mesh_each_names_fewer_and_the_first_ones(members: int, named: int) -> None:
    said = Told(members).announcer.due()
    assert said is not None
    assert said.codec_certificates == HASHES[:named]


def test_new_ones_are_told_calmly_and_another_order_not_at_all() -> None:
    told = Told()
    assert told.announcer.due() is not None
    told.clock.now += CALM_SECONDS
    told.claims = (*reversed(HASHES[: limits.CODEC_CERTIFICATES]),)
    assert told.announcer.due() is None
    told.claims = HASHES[4:]
    told.clock.now += CALM_SECONDS
    said = told.announcer.due()
    assert said is not None
    assert said.codec_certificates == HASHES[4 : 4 + limits.CODEC_CERTIFICATES]

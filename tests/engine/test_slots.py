"""Placing a request when a parked prompt cannot be brought back."""

from array import array
from types import SimpleNamespace
from typing import Any, cast

from meshllm_core.engine.parking import Parked
from meshllm_core.engine.slots import Slots


class _Memory:
    """A cache of 100 cells whose restores all fail."""

    cells = 100

    def drop(self, sequence: int, start: int = 0) -> bool:
        return True

    def state_size(self, sequence: int) -> int:
        return 1

    def save(self, sequence: int, size: int) -> bytearray:
        return bytearray(size)

    def restore(self, sequence: int, state: bytearray) -> bool:
        return False


def test_nothing_is_taken_for_held_that_making_room_has_moved() -> None:
    model = cast(Any, SimpleNamespace(recurrent=False, window=0))
    slots = Slots(model, cast(Any, _Memory()), sequences=2, parking_bytes=1)
    prompt = list(range(80))
    slots.ledger.extend(0, prompt[:30])
    slots.parking.add(Parked(tuple(prompt[:75]), bytearray(1)))
    request = SimpleNamespace(request_id="r")
    job = cast(Any, SimpleNamespace(tokens=array("i", prompt), request=request, sequence=-1, held=0))
    slots.place(job)
    state = slots.ledger.sequences[job.sequence]
    assert state.owner == "r"
    assert job.held == len(state.tokens) == 0

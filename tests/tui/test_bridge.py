"""However often something changes, it is passed on at most so often."""

import asyncio
import itertools

from meshllm_tui.bridge import Throttle


async def test_first_at_once_then_coalesced() -> None:
    sent: list[float] = []
    loop = asyncio.get_running_loop()
    throttle = Throttle(lambda: sent.append(loop.time()), interval=0.05)
    throttle.poke()
    assert len(sent) == 1
    end = loop.time() + 0.23
    pokes = 0
    while loop.time() < end:
        throttle.poke()
        pokes += 1
        await asyncio.sleep(0)
    await asyncio.sleep(0.06)
    assert pokes > 100
    assert 4 <= len(sent) <= 6
    assert all(later - sooner >= 0.049 for sooner, later in itertools.pairwise(sent))


async def test_the_last_change_is_never_lost() -> None:
    seen: list[int] = []
    value = 0
    throttle = Throttle(lambda: seen.append(value), interval=0.02)
    throttle.poke()
    value = 1
    throttle.poke()
    value = 2
    throttle.poke()
    await asyncio.sleep(0.05)
    assert seen == [0, 2]


async def test_stop_forgets() -> None:
    sent: list[int] = []
    throttle = Throttle(lambda: sent.append(1), interval=0.01)
    throttle.poke()
    throttle.poke()
    throttle.stop()
    await asyncio.sleep(0.03)
    assert sent == [1]

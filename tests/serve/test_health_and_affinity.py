"""What is remembered of replicas: how they failed, and which conversations they know."""

from meshllm_core.engine.types import GenerationRequest
from meshllm_core.ids import NodeId, RequestId
from meshllm_core.serve import affinity, health
from meshllm_core.serve.affinity import Affinity, keys_of
from meshllm_core.serve.health import Health

A, B = NodeId(b"a" * 32), NodeId(b"b" * 32)
KEY = (A, "m")


def test_it_rests_longer_each_time() -> None:
    state, now, rests = Health(), 100.0, []
    for _ in range(8):
        state.failed(KEY, now, "broke")
        rests.append(state.rests(KEY, now))
        assert not state.usable(KEY, now + rests[-1] - 0.01)
        now += rests[-1]
        assert state.usable(KEY, now)
    assert rests == [1, 2, 4, 8, 16, 30, 30, 30]
    assert state.why(KEY) == "broke"
    state.succeeded(KEY)
    assert state.usable(KEY, 0.0)
    assert (state.rests(KEY, 0.0), state.why(KEY)) == (0.0, "")


def test_after_the_rest_one_request_tries() -> None:
    state = Health()
    with state.attempt(KEY):
        assert state.usable(KEY, 0.0), "one that never failed takes any number"
    state.failed(KEY, 0.0, "broke")
    with state.attempt(KEY):
        assert not state.usable(KEY, 5.0)
        assert state.usable((B, "m"), 5.0)
    assert state.usable(KEY, 5.0), "the trial was cancelled"
    with state.attempt(KEY):
        state.succeeded(KEY)
        assert state.usable(KEY, 5.0)


def test_only_so_many_are_remembered() -> None:
    state = Health()
    for number in range(health.KEPT + 10):
        state.failed((A, str(number)), 0.0, "broke")
    assert state.usable((A, "9"), 0.0)
    assert not state.usable((A, "10"), 0.0)


def request(prompt: str | tuple[int, ...], session: str = "") -> GenerationRequest:
    return GenerationRequest(request_id=RequestId("r"), prompt=prompt, session=session)


def test_the_next_turn_finds_the_node_of_the_last() -> None:
    memory = Affinity()
    first = request("x" * 700)
    memory.served(keys_of("m", first), A, 0.0)
    assert memory.last(keys_of("m", request("x" * 700 + "y" * 900)), 1.0) == A
    assert memory.last(keys_of("m", request("y" + "x" * 700)), 1.0) is None
    assert memory.last(keys_of("other", first), 1.0) is None
    assert keys_of("m", request("short")) == []
    assert keys_of("m", request(tuple(range(600)))) == keys_of("m", request(tuple(range(512))))


def test_the_longest_beginning_decides() -> None:
    memory = Affinity()
    memory.served(keys_of("m", request("s" * 600 + "a" * 600)), A, 0.0)
    memory.served(keys_of("m", request("s" * 600 + "b" * 600)), B, 0.0)
    assert memory.last(keys_of("m", request("s" * 600 + "a" * 900)), 1.0) == A
    assert memory.last(keys_of("m", request("s" * 600 + "c" * 900)), 1.0) == B


def test_a_name_that_the_client_gave_decides() -> None:
    memory = Affinity()
    memory.served(keys_of("m", request("one", "alice")), A, 0.0)
    assert memory.last(keys_of("m", request("two", "alice")), 1.0) == A
    assert memory.last(keys_of("m", request("one", "bob")), 1.0) is None


def test_it_forgets() -> None:
    memory = Affinity()
    keys = keys_of("m", request("one", "alice"))
    memory.served(keys, A, 0.0)
    assert memory.last(keys, affinity.SECONDS + 1) is None
    for number in range(affinity.KEPT):
        memory.served(keys_of("m", request("one", str(number))), B, 0.0)
    assert memory.last(keys, 1.0) is None

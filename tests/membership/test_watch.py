"""What is known of a member that is watched."""

import pytest

from meshllm_core.membership.gossip_events import PeerState
from meshllm_core.membership.watch import SAMPLES, Watch


def _measured(*trips: float) -> float:
    watch, state = Watch(0.0, 0.0, 0.0), PeerState("alive", 0.0)
    for number, trip in enumerate(trips):
        watch.sent(number, float(number))
        watch.measured(state, number, number + trip)
    return state.round_trip


def test_a_busy_machine_does_not_make_the_network_slow() -> None:
    """Joining keeps both machines busy: the first answers wait for Python, not for the air."""
    assert _measured(0.08, 0.05, 0.002, 0.09) == pytest.approx(0.002)


def test_a_path_that_became_longer_is_believed_after_a_while() -> None:
    assert _measured(0.002, *[0.05] * (SAMPLES - 1)) == pytest.approx(0.002)
    assert _measured(0.002, *[0.05] * SAMPLES) == pytest.approx(0.05)


def test_an_answer_that_nobody_waits_for_measures_nothing() -> None:
    watch, state = Watch(0.0, 0.0, 0.0), PeerState("alive", 0.0)
    watch.measured(state, 7, 1.0)
    assert state.round_trip == 0.0

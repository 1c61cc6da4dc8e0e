"""Frames, refusals, mailboxes and the words for a process's end."""

import asyncio
import signal
import struct

import pytest

from meshllm_core.engine.exits import classify
from meshllm_core.engine.mailbox import Mailbox
from meshllm_core.engine.protocol import (
    FRAME_LIMIT,
    Answer,
    Cancel,
    Chunks,
    encode,
    frame_length,
    from_child_decoder,
    to_child_decoder,
)
from meshllm_core.engine.refusals import error_of, error_of_answer
from meshllm_core.engine.types import Delta, Finished, Refused, Started, Timings
from meshllm_core.errors import EngineError, MeshError
from meshllm_core.ids import RequestId

R = RequestId("r")


def test_frames_round_trip() -> None:
    frame = encode(Cancel(request_id=R))
    assert frame_length(frame[:4]) == len(frame) - 4
    assert to_child_decoder.decode(frame[4:]) == Cancel(request_id=R)
    chunks = Chunks(items=(Delta(request_id=R, text="ä", tokens=1),))
    assert from_child_decoder.decode(encode(chunks)[4:]) == chunks


def test_a_frame_that_is_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(EngineError):
        frame_length(struct.pack("<I", FRAME_LIMIT + 1))


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("context_length_exceeded", 400),
        ("invalid_value", 400),
        ("rate_limit_exceeded", 429),
        ("internal_error", 503),
    ],
)
def test_refusals_become_errors_of_the_same_code(code: str, status: int) -> None:
    error = error_of(Refused(request_id=R, code=code, message="m", param="p"))  # type: ignore[arg-type]
    assert error.http_status == status
    answer = error_of_answer(Answer(call=1, error="m", error_code=code if status != 503 else "invalid_value"))  # type: ignore[arg-type]
    assert isinstance(answer, MeshError)


@pytest.mark.parametrize(
    ("code", "tail", "killed", "reason", "word"),
    [
        (-signal.SIGKILL, (), False, "signal", "SIGKILL"),
        (-signal.SIGKILL, (), True, "out_of_memory", "out of memory"),
        (-signal.SIGABRT, ("GGML_ASSERT(x) failed",), False, "signal", "SIGABRT"),
        (-signal.SIGABRT, ("std::bad_alloc",), False, "out_of_memory", "out of memory"),
        (1, ("ggml: failed to allocate buffer",), False, "out_of_memory", "code 1"),
        (3, ("Traceback",), False, "exit", "code 3"),
        (-200, (), False, "signal", "signal 200"),
    ],
)
def test_the_end_of_a_process_in_words(
    code: int, tail: tuple[str, ...], killed: bool, reason: str, word: str
) -> None:
    error = classify("model", code, tail, killed_for_memory=killed)
    assert error.reason == reason
    assert word in str(error)
    assert error.log_tail == tail


async def test_mailbox_merges_what_a_slow_client_has_not_taken() -> None:
    box = Mailbox()
    box.put(Started(request_id=R, prompt_tokens=1, cached_tokens=0, queue_ms=0))
    for letter in "abc":
        box.put(Delta(request_id=R, text=letter, tokens=1))
    end = Finished(
        request_id=R,
        reason="stop",
        prompt_tokens=1,
        cached_tokens=0,
        completion_tokens=3,
        timings=Timings(queue_ms=0, prefill_ms=0, decode_ms=0),
    )
    box.put(end)
    assert isinstance(await box.get(), Started)
    merged = await box.get()
    assert isinstance(merged, Delta)
    assert (merged.text, merged.tokens) == ("abc", 3)
    assert await box.get() == end


async def test_mailbox_raises_an_error_in_its_place() -> None:
    box = Mailbox()
    taken = asyncio.create_task(box.get())
    await asyncio.sleep(0)
    box.put(EngineError("gone"))
    with pytest.raises(EngineError):
        await taken

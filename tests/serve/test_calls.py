"""The messages of a call: bytes to messages or a typed refusal, errors to errors."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core import errors
from meshllm_core.engine.types import (
    Delta,
    Finished,
    GenerationRequest,
    PositionLogprobs,
    Sampling,
    Started,
    Timings,
    TokenLogprob,
)
from meshllm_core.errors import InvalidRequest, PayloadTooLarge, UnsupportedFeature, WireError
from meshllm_core.ids import RequestId
from meshllm_core.serve import calls
from meshllm_core.serve.answer_check import AnswerCheck
from meshllm_core.serve.call_checks import check_generation, check_inputs
from meshllm_core.wire import limits
from tests.support.scripted_engine import FACTS

R = RequestId("r1")


@given(st.binary(max_size=300))
def test_garbage_is_refused_by_name(body: bytes) -> None:
    for decode in (calls.decode_ask, calls.decode_reply):
        try:
            decode(body)
        except WireError as error:
            assert "no message of a call" in str(error)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xdd\xff\xff\xff\xff",  # an array of 4 billion
        b"\x81" * 100_000,
        b"\x91" * 100_000,
        msgspec.msgpack.encode({"type": "generate", "model": ""}),
        msgspec.msgpack.encode({"type": "facts", "model": "x" * 257}),
        msgspec.msgpack.encode({"type": "detokenize", "model": "m", "tokens": ["a"]}),
        msgspec.msgpack.encode({"type": "tokenize", "model": "m", "text": b"\xff"}),
    ],
)
def test_bad_asks(body: bytes) -> None:
    with pytest.raises(WireError):
        calls.decode_ask(body)


def test_what_is_too_large_is_not_sent() -> None:
    with pytest.raises(PayloadTooLarge, match="16 MiB"):
        calls.encode(calls.Text("x" * (limits.CALL_FRAME + 10)))


def test_a_request_arrives_as_it_was() -> None:
    request = GenerationRequest(
        request_id=R,
        prompt=(1, 2, 3),
        sampling=Sampling(seed=7, logit_bias=((1, -0.5),)),
        stop=("\n",),
        top_logprobs=3,
    )
    assert calls.decode_ask(calls.encode(calls.Generate("m", request))) == calls.Generate("m", request)


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidRequest("No.", hint="Do.", param="prompt"),
        errors.UnsupportedField("No.", param="x"),
        errors.UnsupportedFeature("No."),
        errors.ContextLengthExceeded("No."),
        errors.PayloadTooLarge("No."),
        errors.ModelUnknown("No."),
        errors.ModelNotReady("No.", retry_after=17),
        errors.Overloaded("No.", retry_after=9),
        errors.RequestCancelled("No."),
        errors.EngineExited("No."),
        errors.EngineTimeout("No."),
        errors.EngineError("No."),
        errors.NotPermitted("No."),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_keep_their_class_and_say_where(error: errors.MeshError) -> None:
    refused = calls.decode_reply(calls.encode(calls.refusal_of(error)))
    assert isinstance(refused, calls.Refused)
    told = calls.error_of(refused, "kitchen")
    assert type(told) is type(error)
    assert told.message == "kitchen: No."
    assert (told.code, told.hint, told.http_status) == (error.code, error.hint, error.http_status)
    assert getattr(told, "retry_after", 0) == getattr(error, "retry_after", 0)


def test_errors_of_strangers_are_cleaned_and_bounded() -> None:
    hostile = calls.Refused(code="new_kind", message="\x1b[31m" + "x" * 5000, retry_after=10**9)
    told = calls.error_of(hostile, "kitchen")
    assert type(told) is errors.EngineError
    assert "\x1b" not in str(told)
    assert len(str(told)) < 1100
    late = calls.error_of(calls.Refused(code="rate_limit_exceeded", message="", retry_after=10**9), "k")
    assert isinstance(late, errors.Overloaded)
    assert late.retry_after == 600
    early = calls.error_of(calls.Refused(code="rate_limit_exceeded", message="", retry_after=-5), "k")
    assert isinstance(early, errors.Overloaded)
    assert (early.retry_after, early.message) == (1, "k: it gave no reason.")


@pytest.mark.parametrize(
    "changes",
    [
        {"chat_template": "x" * (calls.TEMPLATE + 1)},
        {"context": 0},
        {"context": 1 << 31},
        {"vocabulary": -1},
        {"width": 0},
        {"name": "x" * 2000},
        {"parameters": -1},
    ],
)
def test_facts_that_cannot_be(changes: dict[str, Any]) -> None:
    assert calls.check_facts(FACTS) is FACTS
    with pytest.raises(WireError):
        calls.check_facts(msgspec.structs.replace(FACTS, **changes))


def test_vectors_lose_nothing_and_have_one_length() -> None:
    vector = [0.25, -1.5, 3.0e-8 * 0 + 0.125]
    assert calls.unpack(calls.pack(vector), 3) == vector
    with pytest.raises(WireError):
        calls.unpack(calls.pack(vector), 4)


NAN = float("nan")


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("request_id", {"request_id": ""}),
        ("request_id", {"request_id": "a b"}),
        ("request_id", {"request_id": "x" * 200}),
        ("prompt", {"prompt": "a\0b"}),
        ("prompt", {"prompt": (1, 2_000_000)}),
        ("prompt", {"prompt": (-1,)}),
        ("max_tokens", {"max_tokens": -1}),
        ("max_tokens", {"max_tokens": 1 << 40}),
        ("top_logprobs", {"top_logprobs": 21}),
        ("stop", {"stop": ("x",) * 200}),
        ("stop", {"stop": ("",)}),
        ("stop", {"stop": ("x" * 10_000,)}),
        ("grammar_triggers", {"grammar_triggers": ("a\0",)}),
        ("json_schema", {"json_schema": "[" * (2 << 20)}),
        ("temperature", {"sampling": Sampling(temperature=NAN)}),
        ("temperature", {"sampling": Sampling(temperature=-1)}),
        ("top_p", {"sampling": Sampling(top_p=float("inf"))}),
        ("top_k", {"sampling": Sampling(top_k=1 << 40)}),
        ("penalty_last_n", {"sampling": Sampling(penalty_last_n=-2)}),
        ("seed", {"sampling": Sampling(seed=-(1 << 63) - 1)}),
        ("logit_bias", {"sampling": Sampling(logit_bias=((1, NAN),))}),
        ("logit_bias", {"sampling": Sampling(logit_bias=((-1, 0.0),))}),
        ("logit_bias", {"sampling": Sampling(logit_bias=((1, 0.0),) * 300)}),
    ],
)
def test_what_another_node_may_not_ask(param: str, fields: dict[str, Any]) -> None:
    request = GenerationRequest(**{"request_id": R, "prompt": "x", **fields})
    with pytest.raises(InvalidRequest) as caught:
        check_generation(request, FACTS)
    assert caught.value.param == param


def test_what_another_node_may_ask() -> None:
    check_generation(GenerationRequest(request_id=RequestId("a-b#2"), prompt="x", max_tokens=5), FACTS)
    embedder = msgspec.structs.replace(FACTS, embeddings=True, generates=False)
    check_inputs(("a", (1, 2)), embedder)
    for inputs in ((), ("",), ((2_000_000,),), ("x",) * 3000):
        with pytest.raises(InvalidRequest):
            check_inputs(inputs, embedder)
    with pytest.raises(UnsupportedFeature):
        check_inputs(("a",), FACTS)
    with pytest.raises(UnsupportedFeature):
        check_generation(GenerationRequest(request_id=R, prompt="x"), embedder)


def started(**fields: Any) -> Started:
    return Started(**{"request_id": R, "prompt_tokens": 1, "cached_tokens": 0, "queue_ms": 0.0, **fields})


def delta(**fields: Any) -> Delta:
    return Delta(**{"request_id": R, "text": "a", "tokens": 1, **fields})


def finished(**fields: Any) -> Finished:
    times = Timings(queue_ms=0, prefill_ms=0, decode_ms=0)
    counts = {"prompt_tokens": 1, "cached_tokens": 0, "completion_tokens": 1}
    return Finished(**{"request_id": R, "reason": "stop", "timings": times, **counts, **fields})


def logprobs(top: int = 0, text: bytes = b"a") -> PositionLogprobs:
    token = TokenLogprob(1, text, -0.5)
    return PositionLogprobs(token, (token,) * top)


@pytest.mark.parametrize(
    ("fault", "chunks"),
    [
        ("", [started(), delta(), delta(tokens=0, text="more"), finished()]),
        ("second", [started(), started()]),
        ("another", [delta()]),
        ("another", [started(), delta(request_id=RequestId("r2"))]),
        ("another", [started(), finished(request_id=RequestId("r2"))]),
        ("more than", [started(), delta(tokens=5), delta(tokens=4)]),
        ("more than", [started(), delta(tokens=-1)]),
        ("more than", [started(), delta(text="x" * 100_000)]),
        ("more than", [started(), *[delta(tokens=0, text="")] * 100]),
        ("more than", [started(), delta(logprobs=(logprobs(),) * 9)]),
        ("alternatives", [started(), delta(logprobs=(logprobs(top=3),))]),
        ("length", [started(), delta(logprobs=(logprobs(text=b"x" * 5000),))]),
        ("figures", [started(prompt_tokens=-1)]),
        ("figures", [started(queue_ms=NAN)]),
        ("figures", [started(), finished(completion_tokens=1 << 40)]),
    ],
)
def test_answers_are_held_to_what_was_asked(fault: str, chunks: list[Started | Delta | Finished]) -> None:
    request = GenerationRequest(request_id=R, prompt="x", max_tokens=8, top_logprobs=2)
    check = AnswerCheck(request, context=4096)
    *before, last = [check.fault(chunk) for chunk in chunks]
    assert (fault in last) if fault else last == ""
    assert not fault or not any(before[:1])


def test_log_probabilities_nobody_asked_for() -> None:
    check = AnswerCheck(GenerationRequest(request_id=R, prompt="x"), context=4096)
    assert check.fault(started()) == ""
    assert check.fault(delta(logprobs=(logprobs(),)))

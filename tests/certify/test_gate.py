"""The gate: exact look-ups, worst verdicts, priors for q8 alone, and words that say what to do."""

import msgspec
import pytest

from meshllm_core.certify.gate import Artifact, Ruling, allowed, cheapest_exact, overridden
from meshllm_core.certify.priors import read_priors, reviewed
from meshllm_core.certify.record import Certified, CodecCertificate
from meshllm_core.certify.verdict import Verdict
from meshllm_core.ids import NodeId
from meshllm_core.wire.codecs import Dtype
from tests.certify.support import EXACT, REJECTED, SHA, UNTESTED, VALIDATED, certificate

ARTIFACT = Artifact(SHA)
ANNA, BORIS = NodeId(b"a" * 32), NodeId(b"b" * 32)


def rule(*certificates: CodecCertificate, codec: Dtype = Dtype.Q8X, artifact: Artifact = ARTIFACT) -> Ruling:
    records = [Certified(ANNA, one) for one in certificates]
    return allowed(artifact, (15,), codec, "cpu", records, reviewed())


def test_f32_needs_no_record() -> None:
    ruling = rule(codec=Dtype.F32)
    assert (ruling.allowed, ruling.verdict, ruling.basis) == (True, Verdict.EXACT, "construction")


@pytest.mark.parametrize("codec", [Dtype.F16, Dtype.BF16, Dtype.Q8, Dtype.Q8X])
def test_nothing_else_goes_without_one(codec: Dtype) -> None:
    ruling = rule(codec=codec)
    assert (ruling.allowed, ruling.verdict, ruling.basis) == (False, Verdict.UNTESTED, "nothing")
    assert codec.label in ruling.words
    assert "cut at 15 on cpu" in ruling.words
    assert "meshllm certify" in ruling.words


def test_measured_verdicts_decide() -> None:
    rulings = [rule(certificate(figures)) for figures in (EXACT, VALIDATED, REJECTED, UNTESTED)]
    assert [(one.allowed, one.verdict.value) for one in rulings] == [
        (True, "exact"), (True, "validated"), (False, "rejected"), (False, "untested"),
    ]  # fmt: skip
    assert "2360 of 2400" in rulings[0].words
    assert "--wire-dtype f32" in rulings[2].words


@pytest.mark.parametrize(
    "other",
    [
        {"artifact": bytes(32)}, {"cuts": (14,)}, {"cuts": (15, 20)}, {"codec": Dtype.F16},
        {"backend": "cuda"}, {"backend": "cpu+cuda"},
    ],
)  # fmt: skip
def test_a_record_of_anything_else_says_nothing(other: dict[str, object]) -> None:
    assert rule(certificate(**other)).verdict is Verdict.UNTESTED  # type: ignore[arg-type]


def test_a_newer_measurement_of_the_same_node_replaces_its_older_one() -> None:
    old, new = certificate(REJECTED, at=1), certificate(EXACT, at=2)
    assert rule(old, new).verdict is rule(new, old).verdict is Verdict.EXACT


def test_a_newer_one_with_too_few_positions_replaces_nothing() -> None:
    assert rule(certificate(REJECTED, at=1), certificate(UNTESTED, at=2)).verdict is Verdict.REJECTED


def test_where_nodes_differ_the_worst_counts() -> None:
    records = [Certified(ANNA, certificate(EXACT, at=9)), Certified(BORIS, certificate(REJECTED, at=1))]
    ruling = allowed(ARTIFACT, (15,), Dtype.Q8X, "cpu", records, reviewed())
    assert (ruling.verdict, ruling.allowed) == (Verdict.REJECTED, False)
    assert BORIS.hex()[:10] in ruling.words


def test_priors_hold_for_the_row_codec_of_the_very_artifact() -> None:
    llama = Artifact(SHA, "hugging-quants/Llama-3.2-1B-Instruct-Q4_K_M-GGUF:Q4_K_M")
    ruling = rule(codec=Dtype.Q8, artifact=llama)
    assert (ruling.allowed, ruling.verdict, ruling.basis) == (True, Verdict.VALIDATED, "reviewed")
    assert "not measured here" in ruling.words
    for codec in (Dtype.Q8X, Dtype.F16):
        assert rule(codec=codec, artifact=llama).verdict is Verdict.UNTESTED
    neighbour = Artifact(SHA, "hugging-quants/Llama-3.2-1B-Instruct-Q4_K_M-GGUF:Q8_0")
    assert rule(codec=Dtype.Q8, artifact=neighbour).verdict is Verdict.UNTESTED


def test_one_family_may_hold_both_verdicts() -> None:
    names = [prior.model for prior in reviewed().values() if prior.family == "rwkv7"]
    verdicts = {rule(codec=Dtype.Q8, artifact=Artifact(SHA, name)).verdict for name in names}
    assert verdicts == {Verdict.VALIDATED, Verdict.REJECTED}


def test_a_rejected_prior_is_refused_and_f32_reviews_are_mentioned() -> None:
    gemma = Artifact(SHA, "ggml-org/gemma-3-270m-it-GGUF:Q8_0")
    ruling = rule(codec=Dtype.Q8, artifact=gemma)
    assert (ruling.allowed, ruling.verdict) == (False, Verdict.REJECTED)
    assert "as f32" in rule(codec=Dtype.F16, artifact=gemma).words


def test_a_measurement_outweighs_a_review() -> None:
    gemma = Artifact(SHA, "ggml-org/gemma-3-270m-it-GGUF:Q8_0")
    ruling = rule(certificate(EXACT, codec=Dtype.Q8), codec=Dtype.Q8, artifact=gemma)
    assert (ruling.allowed, ruling.basis) == (True, "measured")


def test_an_untested_review_is_no_review() -> None:
    untested = Artifact(SHA, "unsloth/DeepSeek-V3.2-GGUF:UD-Q4_K_XL")
    assert rule(codec=Dtype.Q8, artifact=untested).basis == "nothing"


def test_an_override_says_what_it_overrides() -> None:
    forced = overridden(rule(certificate(REJECTED)))
    assert (forced.allowed, forced.verdict, forced.basis) == (True, Verdict.REJECTED, "override")
    assert "forced although it is rejected" in forced.words
    fine = rule(certificate(EXACT))
    assert overridden(fine) is fine


def test_auto_takes_the_smallest_that_is_exact() -> None:
    def auto(*certificates: CodecCertificate) -> tuple[Dtype, list[Dtype]]:
        records = [Certified(ANNA, one) for one in certificates]
        chosen, passed = cheapest_exact(ARTIFACT, (15,), 2048, "cpu", records, reviewed())
        return chosen.codec, [one.codec for one in passed]

    smallest_first = [Dtype.Q8, Dtype.Q8X, Dtype.F16, Dtype.BF16]
    assert auto() == (Dtype.F32, smallest_first)
    assert auto(certificate(EXACT, codec=Dtype.F16)) == (Dtype.F16, smallest_first[:2])
    assert auto(certificate(VALIDATED), certificate(EXACT, codec=Dtype.F16))[0] is Dtype.F16
    assert auto(certificate(EXACT), certificate(EXACT, codec=Dtype.F16)) == (Dtype.Q8X, [Dtype.Q8])


def test_the_reviewed_records_are_all_there() -> None:
    priors = list(reviewed().values())
    assert len(priors) == 98
    assert len({prior.family for prior in priors}) == 97
    counts = [
        sum(prior.q8 == verdict for prior in priors) for verdict in ("validated", "rejected", "untested")
    ]
    assert counts == [48, 41, 9]
    assert sorted(prior.family for prior in priors if prior.wire == "f32") == ["apertus", "gemma", "inkling"]
    verdicts = {prior.family: prior.q8 for prior in priors}
    assert (verdicts["deepseek"], verdicts["deepseek2"]) == ("rejected", "validated")
    assert (verdicts["gemma3"], verdicts["gemma3n"]) == ("rejected", "validated")


def test_two_priors_of_one_artifact_are_refused() -> None:
    record = {"model": "a/b:Q4", "family": "x", "wire": "f16", "q8": "validated"}
    with pytest.raises(ValueError, match="same artifact"):
        read_priors(msgspec.json.encode([record, record | {"model": "A/b:q4"}]))
    with pytest.raises(msgspec.ValidationError):
        read_priors(msgspec.json.encode([record | {"q8": "maybe"}]))

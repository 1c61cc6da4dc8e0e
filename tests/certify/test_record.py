"""Certificates: what is signed comes back, everything else is refused by a reason."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.certify.record import (
    PURPOSE,
    CodecCertificate,
    backend_of,
    open_certificate,
    seal_certificate,
)
from meshllm_core.errors import ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.signed import seal
from meshllm_core.wire import limits
from tests.certify.support import EXACT, certificate

KEY = SigningKey(b"k" * 32)


def test_what_was_signed_comes_back() -> None:
    raw = seal_certificate(KEY, certificate())
    opened = open_certificate(raw)
    assert opened.signer == KEY.public
    assert opened.certificate == certificate()
    assert len(raw) < 512


@given(st.data())
def test_a_changed_byte_is_noticed(data: st.DataObject) -> None:
    raw = bytearray(seal_certificate(KEY, certificate()))
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ProofInvalid):
        open_certificate(bytes(raw))


@given(st.binary(max_size=300))
def test_any_other_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(ProofInvalid):
        open_certificate(raw)


def test_a_signature_for_another_purpose_is_none() -> None:
    assert PURPOSE == "certificate of codec"
    with pytest.raises(ProofInvalid, match="signature"):
        open_certificate(seal(KEY, "announcement", certificate()))


def test_a_certificate_over_the_limit_is_not_read() -> None:
    with pytest.raises(ProofInvalid) as caught:
        open_certificate(b"\0" * (limits.RECORD + 1))
    assert caught.value.reason == "size"


@pytest.mark.parametrize(
    "wrong",
    [
        {"artifact": b"short"}, {"cuts": ()}, {"cuts": (20, 10)}, {"cuts": (10, 10)}, {"cuts": (0,)},
        {"cuts": tuple(range(1, 67))}, {"codec": 9}, {"backend": "x" * 65}, {"at": -1.0}, {"revision": 2},
        {"figures": msgspec.structs.replace(EXACT, agreed=2401)},
        {"figures": msgspec.structs.replace(EXACT, floor_agreed=2401.0)},
        {"figures": msgspec.structs.replace(EXACT, mean_kl=-1.0)},
        {"figures": msgspec.structs.replace(EXACT, mean_kl=float("nan"))},
        {"figures": msgspec.structs.replace(EXACT, floor_seeds=4)},
    ],
)  # fmt: skip
def test_signed_nonsense_is_refused(wrong: dict[str, object]) -> None:
    body: CodecCertificate = msgspec.structs.replace(certificate(), **wrong)
    with pytest.raises(ProofInvalid) as caught:
        open_certificate(seal(KEY, PURPOSE, body))
    assert caught.value.reason == "format"


def test_a_chain_of_one_kind_is_that_kind() -> None:
    assert backend_of(("cpu", "cpu")) == "cpu"
    assert backend_of(("cuda", "cpu", "cuda")) == backend_of(("cpu", "cuda")) == "cpu+cuda"

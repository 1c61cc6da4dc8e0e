"""The certificate that peers pin."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.errors import ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.transport.certificate import certificate_key, make_certificate


def test_the_same_key_gives_the_same_bytes() -> None:
    key = SigningKey(bytes(range(32)))
    made = make_certificate(key)
    assert made == make_certificate(SigningKey(bytes(range(32))))
    assert certificate_key(made) == key.public
    assert len(made) < 512


@given(st.binary(max_size=2000))
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ProofInvalid):
        certificate_key(data)

"""Hashes of certificates in announcements: bounded, and no obstacle between versions."""

import msgspec
import pytest

from meshllm_core.errors import ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.signed import seal, unseal
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import PURPOSE, Announcement

KEY = SigningKey(b"a" * 32)
HASHES = tuple(bytes([number]) * 32 for number in range(limits.CODEC_CERTIFICATES + 1))


def said(hashes: tuple[bytes, ...] = ()) -> Announcement:
    return Announcement(
        mesh=bytes(32), incarnation=1, sequence=1, instance=bytes(8), at=0.0, name="a", version="1",
        protocol=1, role="host", addresses=(), memory_total=1, memory_free=1, devices=(), models=(),
        round_trips=(),
        codec_certificates=hashes,
    )  # fmt: skip


def opened(raw: bytes, kind: type[msgspec.Struct] = Announcement) -> msgspec.Struct:
    return unseal(raw, PURPOSE, kind, limit=limits.ANNOUNCEMENT)[1]


def test_as_many_as_may_be_are_read() -> None:
    full = said(HASHES[:-1])
    assert opened(seal(KEY, PURPOSE, full)) == full


@pytest.mark.parametrize("hashes", [HASHES, (b"x" * 31,), (b"x" * 33,), (b"",)])
def test_too_many_and_those_of_another_size_are_refused(hashes: tuple[bytes, ...]) -> None:
    with pytest.raises(ProofInvalid, match="cannot be read"):
        opened(seal(KEY, PURPOSE, said(hashes)))


def test_versions_without_them_are_understood_and_understand() -> None:
    """What an older version sends ends earlier; what it gets goes on after what it knows."""
    fields = [
        (field.name, field.type, field.default)
        if field.default is not msgspec.NODEFAULT
        else (field.name, field.type)
        for field in msgspec.structs.fields(Announcement)
        if field.name != "codec_certificates"
    ]
    older = msgspec.defstruct("Older", fields, frozen=True, array_like=True)
    new = said(HASHES[:2])
    values = {name: getattr(new, name) for name in older.__struct_fields__}
    old = older(**values)
    assert opened(seal(KEY, PURPOSE, new), older) == old
    assert opened(seal(KEY, PURPOSE, old)) == said()

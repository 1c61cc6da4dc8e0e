"""The invite as text: `MESHLLM:` and base32 in groups, short enough for a QR code of version 6 at most.

Read as people hand it on: with another case, spaces, line breaks or words around it. What is wrong with
one that cannot be read is said as exactly as the check characters allow.
"""

import base64
import binascii
import re
from dataclasses import dataclass

from meshllm_core.discovery import groups
from meshllm_core.discovery import token_faults as faults
from meshllm_core.discovery.groups import GROUP
from meshllm_core.discovery.invite import VERSION, Endpoint, Invite, fitting, pack, total_bytes, unpack
from meshllm_core.discovery.token_scan import collect
from meshllm_core.errors import TokenInvalid

__all__ = ["PREFIX", "Endpoint", "Invite", "compact", "decode", "encode", "fitting", "mask"]

PREFIX = "MESHLLM:"
TEXT_LIMIT = 16 * 1024
"""Characters that are searched for a token."""
TRIES = 16
"""Places in a text at which a token is tried."""

_START = re.compile(r"meshllm:/{0,2}", re.IGNORECASE)
_FOREIGN = re.compile(r"eyJ[A-Za-z0-9_-]{16,}")
"""Base64 of a JSON object."""


def encode(invite: Invite) -> str:
    """The token: `MESHLLM:` and groups of eight characters with dashes between them."""
    return PREFIX + "-".join(groups.write(pack(invite)))


def compact(token: str) -> str:
    """The token without its dashes, as it goes into a QR code."""
    return token.replace("-", "")


def mask(token: str) -> str:
    """What may be shown of a token where it must not be readable."""
    return f"{PREFIX}•••" if token else ""


def decode(text: str) -> Invite:
    """The invite in `text`, which may hold other words too. An expired one is an invite as well.

    Raises TokenInvalid: no token, cut off, mistyped (naming the group), of a newer version, too long, or
    of another program.
    """
    if len(text) > TEXT_LIMIT:
        raise faults.too_much_text(len(text))
    starts = [found.end() for found in _START.finditer(text)][:TRIES]
    furthest: _Fault | None = None
    for start in starts or [0]:
        read = _read(text[start:])
        if isinstance(read, Invite):
            return read
        if furthest is None or read.groups_read > furthest.groups_read:
            furthest = read
    assert furthest is not None
    if not furthest.groups_read and _is_foreign(text):
        raise faults.foreign()
    raise furthest.error if starts or furthest.groups_read else _without_start(text)


@dataclass(frozen=True)
class _Fault:
    error: TokenInvalid
    groups_read: int
    """Groups that held before the first that did not."""


def _read(text: str) -> Invite | _Fault:
    """The token at the start of `text`."""
    symbols = collect(text, GROUP).symbols
    head = groups.repaired(symbols, 1) if len(symbols) == GROUP else None
    if head is None:
        return _Fault(faults.broken_head(collect(text, 3 * GROUP)), 0)
    version, flags = groups.read([head])[:2]
    size = total_bytes(flags)
    if version > VERSION:
        # No group counts as read: one check character alone holds by chance in one text of 32.
        return _Fault(faults.newer(version, VERSION), 0)
    if version < VERSION or size is None:
        return _Fault(faults.mistyped([(1, symbols)]), 0)
    return _read_whole(text, groups.symbol_count(size))


def _read_whole(text: str, wanted: int) -> Invite | _Fault:
    """The token at the start of `text`, which must have so many characters."""
    found = collect(text, wanted)
    parts = [found.symbols[at : at + GROUP] for at in range(0, len(found.symbols), GROUP)]
    missing = wanted - len(found.symbols)
    if missing and len(parts[-1]) < GROUP:
        parts.pop()
    repaired = [groups.repaired(part, number) for number, part in enumerate(parts, start=1)]
    held = [part for part in repaired if part is not None]
    if len(held) < len(parts):
        return _Fault(faults.wrong_group(found, parts, repaired), repaired.index(None))
    if missing:
        return _Fault(faults.cut_off(missing), len(parts))
    if found.surplus:
        return _Fault(faults.too_long(found.surplus), len(parts))
    data = groups.read(held)
    invite = unpack(data) if groups.write(data) == held else None
    return invite or _Fault(faults.does_not_add_up(), len(parts))


def _without_start(text: str) -> TokenInvalid:
    """For a text without `MESHLLM:` that does not start with a first group either."""
    if not text.strip():
        return faults.empty()
    pieces = collect(text, TEXT_LIMIT).pieces[:3]
    for number in range(1, 32):
        held = [groups.repaired(piece, number + at) for at, piece in enumerate(pieces)]
        if len(held) == 3 and None not in held:
            return faults.headless(number)
    return faults.no_token()


def _is_foreign(text: str) -> bool:
    """Whether it holds a token as the program Mesh LLM makes them: base64 of JSON with addresses."""
    for found in _FOREIGN.finditer(text):
        raw = found.group()[: len(found.group()) // 4 * 4]
        try:
            decoded = base64.urlsafe_b64decode(raw)
        except binascii.Error:
            continue
        if b'"addrs"' in decoded or b'"serialized_addrs"' in decoded:
            return True
    return False

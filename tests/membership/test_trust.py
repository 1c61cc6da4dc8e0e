"""Owners: what a certificate proves, and what each policy makes of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.errors import ProofInvalid
from meshllm_core.identity.signed import seal
from meshllm_core.membership.certificates import DAY, moment
from meshllm_core.membership.owner import (
    OWNER_LIFE,
    OwnerCertificate,
    from_text,
    read_owner,
    sign_node,
    to_text,
)
from meshllm_core.membership.trust import Entry, TrustStore, judge
from meshllm_core.wire import limits
from tests.membership.founding import HOUR, NOW, key

OWNER, STRANGER, BANNED = key("owner"), key("stranger"), key("banned")
NODE = key("node").public
STORE = TrustStore(
    trusted=(Entry(id=OWNER.public.hex(), label="me"),),
    revoked=(Entry(id=BANNED.public.hex()), Entry(id=key("lost").public.hex())),
)
GOOD = sign_node(OWNER, NODE, wall=NOW, label="attic")
FORGED = seal(
    STRANGER,
    "owner",
    OwnerCertificate(OWNER.public, NODE, moment(NOW), moment(NOW + DAY)),
)


@pytest.mark.parametrize(
    ("certificate", "node", "status", "admitted_by"),
    [
        (GOOD, NODE, "verified", "off prefer-owned require-owned allowlist"),
        (sign_node(STRANGER, NODE, wall=NOW), NODE, "untrusted_owner", "off prefer-owned require-owned"),
        (b"", NODE, "unsigned", "off prefer-owned"),
        (FORGED, NODE, "invalid_signature", "off prefer-owned"),
        (GOOD[:-1], NODE, "invalid_signature", "off prefer-owned"),
        (GOOD, key("other").public, "mismatched_node", "off prefer-owned"),
        (sign_node(OWNER, NODE, wall=NOW - 30 * DAY), NODE, "expired", "off prefer-owned"),
        (sign_node(OWNER, NODE, wall=NOW + 30 * DAY), NODE, "expired", "off prefer-owned"),
        (sign_node(BANNED, NODE, wall=NOW), NODE, "revoked_owner", ""),
        (sign_node(OWNER, key("lost").public, wall=NOW), key("lost").public, "revoked_node", ""),
        (b"", key("lost").public, "revoked_node", ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_verdict(certificate: bytes, node: bytes, status: str, admitted_by: str) -> None:
    from meshllm_core.ids import NodeId
    from meshllm_core.membership.trust import TrustPolicy

    policies: tuple[TrustPolicy, ...] = ("off", "prefer-owned", "require-owned", "allowlist")
    verdicts = {policy: judge(policy, STORE, certificate, NodeId(node), NOW) for policy in policies}
    assert {verdict.status for verdict in verdicts.values()} == {status}
    assert " ".join(policy for policy, verdict in verdicts.items() if verdict.admits) == admitted_by
    preferred = {policy for policy, verdict in verdicts.items() if verdict.preferred}
    assert preferred == ({"prefer-owned", "require-owned", "allowlist"} if status == "verified" else set())
    assert all(verdict.words and node.hex()[:10] in verdict.sentence for verdict in verdicts.values())


def test_a_verdict_names_the_owner() -> None:
    verdict = judge("allowlist", STORE, GOOD, NODE, NOW)
    assert verdict.words == f"verified {OWNER.public.hex()[:10]}"
    assert (verdict.owner, verdict.label) == (OWNER.public, "attic")


def test_clocks_may_differ_by_a_day() -> None:
    for hours, status in (
        (-25, "expired"),
        (-23, "verified"),
        (7 * 24 + 23, "verified"),
        (7 * 24 + 25, "expired"),
    ):
        assert judge("off", STORE, GOOD, NODE, NOW + hours * HOUR).status == status


def test_a_certificate_is_small_and_can_be_pasted() -> None:
    longest = sign_node(OWNER, NODE, wall=NOW, label="🏠" * 200)
    assert len(longest) <= limits.CERTIFICATE
    text = to_text(longest)
    assert from_text(f" '{text[:50]}\n {text[50:]}' ") == longest
    body = read_owner(longest)
    assert (body.label, body.expires_at - body.issued_at) == ("🏠" * limits.NAME, OWNER_LIFE * 1000)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "begins with"),
        ("nonsense", "begins with"),
        (to_text(GOOD)[:-7] + "!", "mistyped"),
        ("MESHLLM-OWNER:" + "A" * 5000, "too long"),
        ("MESHLLM-OWNER:ä", "mistyped"),
    ],
)
def test_what_is_no_certificate_is_named(text: str, words: str) -> None:
    with pytest.raises(ProofInvalid, match=words):
        from_text(text)


@given(st.data())
def test_a_changed_certificate_never_verifies(data: st.DataObject) -> None:
    changed = bytearray(GOOD)
    position = data.draw(st.integers(0, len(changed) - 1))
    changed[position : position + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    if bytes(changed) != GOOD:
        assert judge("off", STORE, bytes(changed), NODE, NOW).status in ("invalid_signature", "unsigned")


@given(st.text(max_size=200))
def test_any_text_is_refused_in_words(text: str) -> None:
    with pytest.raises(ProofInvalid):
        read_owner(from_text(f"MESHLLM-OWNER:{text}"))

"""Every way in which a member says no, in the words of both sides."""

from meshllm_core.errors import JoinRefused
from meshllm_core.wire.handshake import Refusal, RefusalCode

COPIED = (
    "Another machine uses this node's key: a home folder was copied. "
    "Make a new key on one of the two with `meshllm id --new`, then join again."
)
"""What to tell when a second machine with the own key was seen."""

_ASK = "Ask for a new invite: `meshllm invite` on a machine of the mesh."

_WORDS: dict[RefusalCode, tuple[str, str]] = {
    "version": (
        "The two machines run versions of meshllm that do not understand each other.",
        "Update meshllm on the one with the older version.",
    ),
    "other_mesh": (
        "This node belongs to another mesh than the one it was asked to enter.",
        "Leave the present one first: `meshllm leave`.",
    ),
    "not_member": ("The mesh does not know this node as a member.", _ASK),
    "expired": ("The invite, or this node's membership, has expired.", _ASK),
    "used_up": ("The invite was used as often as it may be.", _ASK),
    "revoked": ("The invite, or this node's membership, was revoked.", _ASK),
    "unknown_invite": (
        "The mesh does not know this invite.",
        "It may be of another mesh, or its maker has lost it. " + _ASK,
    ),
    "clock": (
        "The clocks of the two machines differ by more than a day.",
        "Set the clock of the one that is wrong, then try again.",
    ),
    "duplicate_identity": (
        "Another machine that runs now uses the same node key: a home folder was copied.",
        "Make a new key on one of the two: `meshllm id --new`, then join again.",
    ),
    "policy": (
        "The other node's trust policy does not admit this node.",
        "Its owner can sign this node: `meshllm owner sign`.",
    ),
    "full": ("The mesh takes no more members of this kind now.", "Try again later, or another mesh."),
    "role": (
        "The invite is for a client, this node wanted to be a host.",
        "Join as a client (`meshllm client`), or ask for an invite with `--role host`.",
    ),
    "wrong_identity": ("Another node answered than the invite names.", _ASK),
    "waiting": (
        "A person there has to let this node in, and has not yet.",
        "Somebody there can: `meshllm members` shows who waits, `meshllm approve` lets it in.",
    ),
    "declined": ("A person there did not let this node in.", "Ask whoever runs that machine."),
    "blocked": ("The owner of that machine blocked this node.", "Ask whoever runs that machine."),
    "malformed": ("The other node could not read what this one sent.", "Update meshllm on both machines."),
}


def refused(refusal: Refusal, *, by: str) -> JoinRefused:
    """The error on the side that was refused; `by` is the machine that refused, as it can be named."""
    message, hint = _WORDS[refusal.code]
    if refusal.code == "waiting":
        return JoinRefused(f"waiting for approval by {refusal.text or by}", reason=refusal.code, hint=hint)
    detail = f" {refusal.text}" if refusal.text else ""
    return JoinRefused(
        f"{by} refused: {message}{detail}", reason=refusal.code, hint=hint, proof=refusal.proof
    )


def refusal_of(error: JoinRefused) -> Refusal:
    """What is sent to the other side for an error that was raised here."""
    code: RefusalCode = error.reason if error.reason in _WORDS else "malformed"
    told = code in ("version", "clock", "policy", "waiting")
    return Refusal(code=code, text=error.message[:300] if told else "", proof=error.proof)

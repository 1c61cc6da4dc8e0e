"""What is wrong with a token that cannot be read, in words."""

from meshllm_core.discovery.groups import GROUP
from meshllm_core.discovery.token_scan import Characters
from meshllm_core.errors import TokenInvalid

ASK_AGAIN = "Ask for a new one: `meshllm invite` on a machine of the mesh."

_COMPARE = (
    f"Compare it with the original; every group but the last has {GROUP} letters or digits, "
    "and 0, 1, 8 and 9 do not occur."
)
_NAMED = 3
"""Mistyped groups that are named; of more it is said how many."""


def broken_head(found: Characters) -> TokenInvalid:
    """For a first group that does not hold; `found` reaches some way beyond it."""
    first = found.pieces[0] if found.pieces else ""
    if len(found.pieces) > 1 and len(first) < GROUP - 2:
        return no_token()
    if len(found.symbols) < GROUP:
        return TokenInvalid("This invite is cut off: not even its first group is whole.", hint=ASK_AGAIN)
    if len(found.pieces) > 1 and _miscounted(first):
        return _wrong_length(1, first)
    return mistyped([(1, found.symbols[:GROUP])])


def wrong_group(found: Characters, parts: list[str], repaired: list[str | None]) -> TokenInvalid:
    """For a later group that does not hold: `repaired` is None for each of `parts` that does not."""
    first = repaired.index(None)
    wrong = [(place + 1, parts[place]) for place, part in enumerate(repaired) if part is None]
    pieces = found.pieces
    if first < len(pieces) - 1 and all(len(piece) == GROUP for piece in pieces[:first]):
        if _miscounted(pieces[first]):
            return _wrong_length(first + 1, pieces[first])
    elif len(wrong) > _NAMED and 2 * len(wrong) > len(parts) - first:
        return TokenInvalid(
            f"In group {first + 1} of this invite (`{parts[first]}`) a character is missing or one too many: "
            "nothing fits from there on.",
            hint=_COMPARE,
        )
    return mistyped(wrong)


def _miscounted(piece: str) -> bool:
    """Whether it looks like one group with a character too few or too many, not like several in a row."""
    return len(piece) != GROUP and len(piece) < 2 * GROUP - 2


def _wrong_length(number: int, piece: str) -> TokenInvalid:
    return TokenInvalid(
        f"Group {number} of this invite (`{piece}`) has {len(piece)} characters instead of {GROUP}.",
        hint=_COMPARE,
    )


def mistyped(wrong: list[tuple[int, str]]) -> TokenInvalid:
    """`wrong`: number and text of each group that does not hold."""
    named = ", ".join(f"group {number} (`{part}`)" for number, part in wrong[:_NAMED])
    more = f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
    verb = "is" if len(wrong) == 1 else "are"
    return TokenInvalid(f"This invite has a typing mistake: {named}{more} {verb} mistyped.", hint=_COMPARE)


def does_not_add_up() -> TokenInvalid:
    """Every group holds, the whole does not."""
    return TokenInvalid("This invite does not add up: several of its groups are mistyped.", hint=_COMPARE)


def cut_off(missing: int) -> TokenInvalid:
    """`missing`: characters."""
    characters = "1 character is" if missing == 1 else f"{missing} characters are"
    return TokenInvalid(
        f"This invite is cut off: {characters} missing at its end.",
        hint="Copy the whole of it, to the last group; a token may run over several lines.",
    )


def too_long(surplus: int) -> TokenInvalid:
    """`surplus`: characters."""
    characters = "1 character too many follows" if surplus == 1 else f"{surplus} characters too many follow"
    return TokenInvalid(f"This invite is too long: {characters} its last group.", hint=_COMPARE)


def too_much_text(length: int) -> TokenInvalid:
    """`length`: characters."""
    return TokenInvalid(
        f"This text is too long to be an invite: {length:,} characters.",
        hint="Give only the invite, which starts with MESHLLM: and has less than 250 characters.",
    )


def newer(version: int, known: int) -> TokenInvalid:
    """The form of the token is of a later version than is known here."""
    return TokenInvalid(
        f"This invite was made by a newer version of meshllm (form {version}, this one reads {known}).",
        hint="Update meshllm on this machine, then join again.",
    )


def foreign() -> TokenInvalid:
    """A token of Mesh LLM."""
    return TokenInvalid(
        "This is an invite of Mesh LLM, another program; meshllm cannot join its meshes.",
        hint="Ask for one of meshllm: it starts with MESHLLM: and is made by `meshllm invite`.",
    )


def headless(number: int) -> TokenInvalid:
    """The text starts within a token; `number` is its first group."""
    return TokenInvalid(
        f"The beginning of this invite is missing: it starts with group {number}.",
        hint="Copy the whole of it, from MESHLLM: on.",
    )


def no_token() -> TokenInvalid:
    """Nothing of ours."""
    return TokenInvalid(
        "This is not an invite.",
        hint="An invite starts with MESHLLM: and is made by `meshllm invite` on a machine of the mesh.",
    )


def empty() -> TokenInvalid:
    """Nothing at all."""
    return TokenInvalid("The invite is empty.", hint=ASK_AGAIN)

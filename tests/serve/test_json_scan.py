"""The incremental scanner and Python's own decoder agree on where a JSON value ends."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from meshllm_core.serve.tools.json_scan import JsonScanner, Step


def scan(text: str) -> tuple[Step, int]:
    """The last step, and how many characters belong to the value by then."""
    scanner = JsonScanner()
    for index, character in enumerate(text):
        step = scanner.feed(character)
        if step is Step.DONE:
            return step, index + 1
        if step is not Step.MORE:
            return step, index
    return Step.MORE, len(text)


PIECES = ['"a"', '"a": ', "1", "-", "0", ".5", "e+3", "true", "fals", "null", "\\u00e9", '\\"', "\n", "x"]
FRAGMENTS = st.sampled_from([*'{}[],: "\\', *PIECES])


@given(st.lists(FRAGMENTS, max_size=14).map("".join))
@example("{]")
@example("]}")
@example('{"a": [1}]')
@example('{"a": 1,}]')
@example("1,]")
@example("01]")
@example("1 2]")
@example('{"a" 1}]')
@example("{1: 2}]")
@example('"\\x"]')
@example('"\\u12g4"]')
def test_agrees_with_json(rest: str) -> None:
    # In a list, because the end of a number alone is told only by what follows.
    text = "[" + rest
    step, length = scan(text)
    try:
        _, end = json.JSONDecoder(strict=False).raw_decode(text)
    except json.JSONDecodeError:
        assert step in {Step.BAD, Step.MORE}
    else:
        assert (step, length) == (Step.DONE, end)


def test_a_number_ends_before_what_follows() -> None:
    assert scan("-1.5e3}") == (Step.ENDED, 6)
    assert scan("true,") == (Step.ENDED, 4)
    assert scan("01,")[0] is Step.BAD


@given(st.text(alphabet=st.characters(max_codepoint=0x7F, exclude_characters='"\\')))
def test_control_characters_in_strings_are_escaped(text: str) -> None:
    scanner = JsonScanner()
    written = ""
    for character in f'"{text}"':
        written += scanner.escaped(character)
        scanner.feed(character)
    assert json.loads(written) == text

"""The drawn tree is the real one, and every error can be shown to a person."""

import inspect
import re

import pytest

from meshllm_core import errors
from meshllm_core.errors import ExitCode, MeshError, describe

CLASSES = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, MeshError)]


def _drawn() -> dict[str, str]:
    """Class to parent, as drawn at the top of errors.py."""
    parents: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^([│ ]*(?:[├└]── )?)([A-Z]\w+)(?:\s|$)", line)
        if not match or (not match.group(1) and match.group(2) != "MeshError"):
            continue
        depth, name = len(match.group(1)), match.group(2)
        above = [entry for entry in above if entry[0] < depth]
        parents[name] = above[-1][1] if above else "Exception"
        above.append((depth, name))
    return parents


def test_drawn_tree_is_the_real_one() -> None:
    assert _drawn() == {cls.__name__: cls.__bases__[0].__name__ for cls in CLASSES}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_class_is_mapped(cls: type[MeshError]) -> None:
    assert inspect.getdoc(cls) and cls.__doc__
    assert re.fullmatch(r"[a-z_]+", cls.code)
    assert cls.error_type.endswith("_error")
    assert 400 <= cls.http_status <= 599
    assert isinstance(cls.exit_code, ExitCode)
    assert cls.exit_code is not ExitCode.OK


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_message_and_hint_are_shown_together(cls: type[MeshError]) -> None:
    error = cls("The file is cut off.", hint="Download it again.")
    assert str(error) == "The file is cut off. Download it again."
    assert describe(error) == str(error)
    assert str(cls("Only this.")) == "Only this."


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TimeoutError(), "TimeoutError"),
        (OSError("  "), "OSError"),
        (ValueError("bad"), "ValueError: bad"),
        (KeyError("port"), "KeyError: 'port'"),
    ],
)
def test_foreign_errors_are_never_described_by_nothing(error: Exception, text: str) -> None:
    assert describe(error) == text


def test_exit_codes_have_different_values() -> None:
    assert len({int(code) for code in ExitCode}) == len(ExitCode)
    assert [int(code) for code in (ExitCode.OK, ExitCode.USAGE, ExitCode.INTERRUPTED)] == [0, 2, 130]

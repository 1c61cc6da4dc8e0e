"""What must not stand in the project's files: hosts of package registries, paths of somebody's machine."""

import re
from pathlib import Path

import pytest

from tests.contracts import tree

# Put together here, so that this file does not hold what it looks for.
REGISTRIES = re.compile(
    "|".join(["py" + r"pi\.org", "python" + r"hosted\.org", "conda" + r"\.anaconda\.org"])
)
MACHINE_PATHS = re.compile(r"(?<![\w.~$}/])/(?:work|root|tmp/build|Users/\w+|home/(?!user\b|you\b)\w+)(?=/)")
TEXT = {".py", ".sh", ".md", ".toml", ".lock", ".tcss", ".json", ".jsonl", ".svg", ".raw", ".txt", ""}


def _text_files() -> list[Path]:
    return [path for path in tree.files() if path.suffix in TEXT]


@pytest.mark.parametrize("pattern", [REGISTRIES, MACHINE_PATHS], ids=["registries", "machine paths"])
def test_files_are_free_of(pattern: re.Pattern[str]) -> None:
    found = [
        f"{tree.name(path)}: {match.group(0)}"
        for path in _text_files()
        for match in pattern.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not found


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("see https://py" + "pi.org/simple", REGISTRIES),
        ('cd "/wor' + 'k/main"', MACHINE_PATHS),
        ("/ho" + "me/anna/models", MACHINE_PATHS),
    ],
)
def test_patterns_find_what_they_are_for(text: str, pattern: re.Pattern[str]) -> None:
    assert pattern.search(text)


def test_text_files_end_with_one_newline() -> None:
    checked = [path for path in _text_files() if path.suffix in {".sh", ".md", ".toml", ".tcss"}]
    wrong = [
        tree.name(path)
        for path in checked
        if (text := path.read_text(encoding="utf-8")) and (not text.endswith("\n") or text.endswith("\n\n"))
    ]
    assert not wrong

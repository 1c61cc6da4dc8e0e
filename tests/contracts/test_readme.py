"""What the README says can be done, can be done."""

import ast
import inspect
import json
import re
import shlex
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from meshllm_core import errors
from meshllm_core.cli.app import build_app
from tests.contracts import tree

README = (tree.ROOT / "README.md").read_text(encoding="utf-8")
CHANGELOG = (tree.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def _commands() -> list[str]:
    """Every call of meshllm in a block of commands or in the tables."""
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("meshllm")]
    inline = [words.removesuffix(" …") for words in re.findall(r"`(meshllm(?: [^`]+)?)`", README)]
    return sorted({*lines, *inline})


@pytest.fixture(scope="module")
def program() -> TyperGroup:
    """The whole command line."""
    command = typer.main.get_command(build_app())
    assert isinstance(command, TyperGroup)
    return command


@pytest.mark.parametrize("line", _commands())
def test_command_exists_with_its_options(program: TyperGroup, line: str) -> None:
    words = shlex.split(line)[1:]
    command: Any = program
    while words and isinstance(command, TyperGroup) and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
    assert {word for word in words if word.startswith("--")} <= known
    if isinstance(command, TyperGroup) and not command.invoke_without_command:
        assert not [word for word in words if not word.startswith("-")], "no such command"


def test_every_command_is_in_the_table(program: TyperGroup) -> None:
    rows = set(re.findall(r"^\| `meshllm (\w+)", README, re.MULTILINE))
    assert rows == set(program.commands)


def test_every_command_that_the_table_promises_json_for_takes_it(program: TyperGroup) -> None:
    def leaves(command: Any) -> list[Any]:
        if isinstance(command, TyperGroup):
            own = [command] if command.invoke_without_command else []
            return own + [leaf for below in command.commands.values() for leaf in leaves(below)]
        return [command]

    without = [
        leaf.name
        for leaf in leaves(program)
        if leaf is not program and "--json" not in {name for p in leaf.params for name in p.opts}
    ]
    assert set(without) <= {"serve"}


def test_it_opens_with_the_two_commands() -> None:
    first = README.split("```")[1].splitlines()[1:]
    assert [line.split("#")[0].strip() for line in first] == [
        "sh installers/run.sh",
        "sh installers/test.sh",
    ]


@pytest.mark.parametrize("script", sorted(set(re.findall(r"(?:installers/\w+\.sh|\.ci/run)", README))))
def test_script_exists(script: str) -> None:
    assert (tree.ROOT / script).is_file()


def test_exit_codes_are_those_of_the_program() -> None:
    source = inspect.getsource(errors.ExitCode)
    told = dict(re.findall(r'^    [A-Z]+ = (\d+)\n    """(.+)"""', source, re.MULTILINE))
    assert {int(code) for code in told} == {int(code) for code in errors.ExitCode}
    rows = dict(re.findall(r"^\| (\d+) \| (.+) \|$", README, re.MULTILINE))
    assert rows == told


def test_drawn_tree_exists() -> None:
    (drawn,) = [block for block in README.split("```")[1::2] if "meshllm_core/ " in block]
    folder = ""
    for line in drawn.strip().splitlines():
        indent, name = re.match(r"( *)(\S+)", line).groups()  # type: ignore[union-attr]
        folder = name if not indent else folder
        assert (tree.ROOT / (folder + name if indent else name)).is_dir(), line


def test_installer_variables_are_those_in_the_scripts() -> None:
    told = set(re.findall(r"^\| `(MESHLLM_\w+)` \|", README, re.MULTILINE))
    scripts = [path for path in tree.files() if tree.top(path) == "installers" and path.suffix != ".lock"]
    used = {name for path in scripts for name in re.findall(r"MESHLLM_[A-Z_]+", path.read_text())}
    assert told == used - {"MESHLLM_HOME"}


def test_examples_can_be_pasted() -> None:
    bodies = re.findall(r"-d '(.+?)'", README)
    assert [json.loads(body)["model"] for body in bodies] == ["auto", "auto"]
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names = {
        node.func.attr
        for node in ast.walk(ast.parse(example))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert "create" in names


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (tree.ROOT / target).exists(), target


def test_changelog_has_an_unreleased_section_with_content() -> None:
    section = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", CHANGELOG, re.MULTILINE | re.DOTALL)
    assert section
    assert re.search(r"^- \S", section.group(1), re.MULTILINE)

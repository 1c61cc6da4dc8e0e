"""Prints the project's sizes after the tests."""

from statistics import median

import pytest

from tests.contracts import tree


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line on how large files and functions are."""
    lines = sorted(tree.line_count(path) for path in tree.sources(*tree.PRODUCT))
    sizes = sorted(
        tree.function_lines(node) for path in tree.sources(*tree.PRODUCT) for node in tree.functions(path)
    )
    if lines and sizes:
        terminalreporter.write_line(
            f"sizes: {len(lines)} files, median {median(lines):.0f} lines, largest {lines[-1]}; "
            f"{len(sizes)} functions, median {median(sizes):.0f} lines, "
            f"95 % within {sizes[int(len(sizes) * 0.95)]}, largest {sizes[-1]}"
        )

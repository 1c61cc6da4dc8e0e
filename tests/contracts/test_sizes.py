"""Small files and small functions: what is larger has to be cut before it is merged."""

from statistics import median

from tests.contracts import tree

FILE_LINES = 400
FUNCTION_LINES = 60
MEDIAN_LINES = 140
WRITTEN_BY_HAND = (".py", ".sh", ".tcss")


def test_no_file_is_too_long() -> None:
    long = {
        tree.name(path): tree.line_count(path)
        for path in tree.files()
        if path.suffix in WRITTEN_BY_HAND and tree.line_count(path) > FILE_LINES
    }
    assert not long


def test_no_function_is_too_long() -> None:
    long = {
        f"{tree.name(path)}:{node.lineno} {node.name}": tree.function_lines(node)
        for path in tree.sources()
        for node in tree.functions(path)
        if tree.function_lines(node) > FUNCTION_LINES
    }
    assert not long


def test_median_file_is_small() -> None:
    assert median(tree.line_count(path) for path in tree.sources(*tree.PRODUCT)) <= MEDIAN_LINES

"""The size of what a template is about to build, judged before it exists. Pure.

All of these raise SecurityError or TemplateTooCostly instead of letting an operation go ahead that could
take memory or time out of proportion to its operands.
"""

import re
from collections.abc import Sized
from string import Formatter
from typing import Any

from jinja2.exceptions import SecurityError

from meshllm_core.serve.budget import Budget, Counted, current

_INTEGER_BITS = 4_096
_PRECISION_LIMIT = 20
_DIGITS = 2
"""Longest number that may stand in a format, for a width or a precision."""
_PERCENT = re.compile(r"%(?:\([^()]*\))?[-+ #]*(?P<width>[\d*]*)\.?(?P<precision>[\d*]*)")
_NESTED_KEY = re.compile(r"%\([^()]*\(")
_LONG_NUMBER = re.compile(rf"\d{{{_DIGITS + 1}}}")


def check_filter(name: str, value: Any, rest: list[Any], kwargs: dict[str, Any]) -> None:
    """Look at what a filter would make of `value`; `rest` are its other arguments."""
    match name:
        case "join":
            separator = str(rest[0] if rest else kwargs.get("d", ""))
            current().charge_value(value)
            current().charge(len(separator) * (len(value) if isinstance(value, Sized) else 0))
        case "replace":
            named = [kwargs[name] for name in ("old", "new") if name in kwargs]
            _check_replace(str(value), *(str(part) for part in [*rest, *named][:2]))
        case "format":
            _check_percent(str(value), [*rest, *kwargs.values()])
        case "indent":
            width = rest[0] if rest else kwargs.get("width", 4)
            size = len(width) if isinstance(width, str) else int(width)
            if size >= 10**_DIGITS:
                raise SecurityError("indent: the width is too large")
            current().charge(size * (str(value).count("\n") + 1))
        case "round":
            precision = rest[0] if rest else kwargs.get("precision", 0)
            if abs(int(precision)) > _PRECISION_LIMIT:
                raise SecurityError("round: the precision is too large")
        case "sum":
            if len(rest) > 1 or "start" in kwargs:
                raise SecurityError("sum: start is not available")


def checked_arguments(obj: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a call, after a look at what a string method would make of them."""
    method = getattr(obj, "__wrapped__", obj)
    owner = getattr(method, "__self__", None)
    if not isinstance(owner, str):
        return args
    budget = current()
    budget.scan(owner)
    match method.__name__:
        case "replace":
            _check_replace(owner, *args[:2])
        case "join" if args:
            items = args[0] if isinstance(args[0], Sized) else list(Counted(args[0]))
            budget.charge_value(items)
            budget.charge(len(owner) * len(items))
            return (items, *args[1:])
        case "format" | "format_map":
            _check_braces(owner, [*args, *kwargs.values()])
    return args


def _check_replace(text: str, old: str = "", new: str = "") -> None:
    current().charge(len(text) + text.count(old) * len(new))


def _check_percent(text: str, values: Any) -> None:
    fields = 0
    for field in _PERCENT.finditer(text):
        fields += 1
        if any("*" in size or len(size) > _DIGITS for size in (field["width"], field["precision"])):
            raise SecurityError("a format with wide fields is not available")
    if _NESTED_KEY.search(text):
        raise SecurityError("a format with brackets in a key is not available")
    _charge_fields(fields, values)


def _check_braces(text: str, values: Any) -> None:
    fields = 0
    for _, _, spec, _ in Formatter().parse(text):
        fields += 1
        if spec and ("{" in spec or _LONG_NUMBER.search(spec)):
            raise SecurityError("a format with wide fields is not available")
    _charge_fields(fields, values)


def _charge_fields(fields: int, values: Any) -> None:
    """Every field may print all of the values."""
    measure = Budget()
    measure.charge_value(values)
    current().charge(fields * (10**_DIGITS + measure.spent))


def check_binop(operator: str, left: Any, right: Any) -> None:
    """Look at what an operator would make of its operands."""
    budget = current()
    if operator == "%" and isinstance(left, str):
        _check_percent(left, right)
    elif operator == "**":
        if not (isinstance(right, (int, float)) and abs(right) <= 64) or _bits(left) * 64 > _INTEGER_BITS:
            raise SecurityError("the power is too large")
    elif operator == "*":
        if _bits(left) + _bits(right) > _INTEGER_BITS:
            raise SecurityError("the product is too large")
        for many, times in ((left, right), (right, left)):
            if isinstance(many, Sized) and isinstance(times, int):
                budget.charge(len(many) * max(times, 0))
    elif operator == "+" and isinstance(left, Sized) and isinstance(right, Sized):
        budget.charge(len(left) + len(right))


def _bits(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else 0

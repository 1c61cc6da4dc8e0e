"""A Jinja environment for templates that strangers wrote: no reach outside, and bounded work.

Jinja's own sandbox keeps a template from attributes it must not touch; it does not keep it from looping
or from growing values. Here loops, calls, and every place where a value is built are led past a budget,
and what could grow a value out of sight of it is taken away.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sized
from functools import wraps
from typing import Any, cast

from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from meshllm_core.serve.budget import CALL, Budget, current

_INTEGER_BITS = 4_096
_WIDTH_LIMIT = 99
_UNBOUNDED_FILTERS = (
    *("batch", "center", "filesizeformat", "forceescape", "pprint", "random"),
    *("slice", "striptags", "urlencode", "urlize", "wordwrap", "xmlattr"),
)
_UNBOUNDED_STRING_METHODS = frozenset(
    {"center", "expandtabs", "ljust", "maketrans", "rjust", "translate", "zfill"}
)
_WIDE = re.compile(r"\d{3,}|%[^a-zA-Z%]*\*|\{[^}]*:[^}]*\{")
_COUNTED, _JOINED, _BUILT = "meshllm-counted", "meshllm-joined", "meshllm-built"


class _Counted:
    """An iterable each of whose rounds costs a step."""

    def __init__(self, iterable: Iterable[Any]) -> None:
        self._iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        budget = current()
        for item in self._iterable:
            budget.step()
            yield item

    def __len__(self) -> int:
        # Jinja asks for the length of a loop and copes with a TypeError.
        if not isinstance(self._iterable, Sized):
            raise TypeError("not sized")
        return len(self._iterable)


class _Meter(NodeTransformer):
    """Leads loops, joins and literals of a template past the budget."""

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        node.iter = _through(_COUNTED, cast(nodes.Expr, node.iter))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:
        self.generic_visit(node)
        return _through(_JOINED, nodes.List(node.nodes, lineno=node.lineno))

    def visit_List(self, node: nodes.List) -> nodes.Expr:
        return self._literal(node, node.items)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Expr:
        return self._literal(node, node.items) if node.ctx == "load" else node

    def visit_Dict(self, node: nodes.Dict) -> nodes.Expr:
        return self._literal(node, [pair.value for pair in node.items])

    def _literal(self, node: nodes.Expr, parts: list[nodes.Expr]) -> nodes.Expr:
        if all(isinstance(part, nodes.Const) for part in parts):
            return node
        self.generic_visit(node)
        return _through(_BUILT, node)


def _through(name: str, node: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


class _Generation(Extension):
    """`{% generation %}` marks what an assistant said, for training; here it only passes its body on."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """The environment that chat templates expect (that of `transformers`), with a budget."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", _Generation],
        )
        for name in _UNBOUNDED_FILTERS:
            del self.filters[name]
        self.filters = {name: _metered(name, function) for name, function in self.filters.items()}
        self.filters |= {_COUNTED: _Counted, _JOINED: _joined, _BUILT: _built}
        for name in ("lipsum", "cycler", "joiner"):
            del self.globals[name]

    def add_filter(self, name: str, function: Callable[..., Any]) -> None:
        """Add or replace a filter; it is metered like the others."""
        self.filters[name] = _metered(name, function)

    @staticmethod
    def concat(pieces: Iterable[str]) -> str:
        """Join what a macro or block wrote."""
        return _joined(pieces)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _Meter().visit(super()._parse(source, name, filename))
        tree.set_environment(self)
        return tree

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Also keeps away string methods whose result has any length one likes."""
        if isinstance(obj, str) and attr in _UNBOUNDED_STRING_METHODS:
            return False
        return super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Check the size of the result before it exists."""
        _check_binop(operator, left, right)
        result = super().call_binop(context, operator, left, right)
        current().charge_value(result)
        return result

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call, for one step and the size of the result."""
        budget = current()
        budget.step(CALL)
        if isinstance(obj, LoopContext):
            args = (_Counted(args[0]), *args[1:])
        _check_string_method(obj, args, kwargs)
        result = super().call(context, obj, *args, **kwargs)
        budget.charge_value(result)
        return result


def _metered(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter whose step and result are paid for."""
    # `wraps` keeps what Jinja noted on the function about its first argument.
    takes_context = hasattr(function, "jinja_pass_arg")

    @wraps(function)
    def filter_(*args: Any, **kwargs: Any) -> Any:
        budget = current()
        budget.step(CALL)
        value, *rest = args[1:] if takes_context else args
        if isinstance(value, Sized):
            budget.charge(len(value))
        _check_filter(name, value, rest, kwargs)
        if name == "join" and not isinstance(value, (str, Sized)):
            value = list(_Counted(value))
        result = function(*args[: len(args) - len(rest) - 1], value, *rest, **kwargs)
        budget.charge_value(result)
        return result

    return filter_


def _check_filter(name: str, value: Any, rest: list[Any], kwargs: dict[str, Any]) -> None:
    match name:
        case "join":
            separator = str(rest[0] if rest else kwargs.get("d", ""))
            current().charge_value(value)
            current().charge(len(separator) * (len(value) if isinstance(value, Sized) else 0))
        case "replace":
            _check_replace(str(value), *(str(part) for part in rest[:2]))
        case "format":
            _check_format(str(value), [*rest, *kwargs.values()])
        case "indent":
            width = rest[0] if rest else kwargs.get("width", 4)
            size = len(width) if isinstance(width, str) else int(width)
            if size > _WIDTH_LIMIT:
                raise SecurityError("indent: the width is too large")
            current().charge(size * (str(value).count("\n") + 1))
        case "sum":
            if len(rest) > 1 or "start" in kwargs:
                raise SecurityError("sum: start is not available")


def _check_string_method(obj: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    method = getattr(obj, "__wrapped__", obj)
    owner = getattr(method, "__self__", None)
    if not isinstance(owner, str):
        return
    budget = current()
    budget.charge(len(owner))
    match method.__name__:
        case "replace":
            _check_replace(owner, *args[:2])
        case "join" if args:
            items = args[0] if isinstance(args[0], Sized) else ()
            budget.charge_value(items)
            budget.charge(len(owner) * len(items))
        case "format" | "format_map":
            _check_format(owner, [*args, *kwargs.values()])


def _check_replace(text: str, old: str = "", new: str = "") -> None:
    current().charge(len(text) + text.count(old) * len(new))


def _check_format(text: str, values: Any) -> None:
    if _WIDE.search(text):
        raise SecurityError("a format with wide fields is not available")
    measure = Budget()
    measure.charge_value(values)
    fields = text.count("%") + text.count("{")
    current().charge(fields * (_WIDTH_LIMIT + measure.spent))


def _check_binop(operator: str, left: Any, right: Any) -> None:
    budget = current()
    if operator == "%" and isinstance(left, str):
        _check_format(left, right)
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


def _built(value: Any) -> Any:
    current().charge_value(value)
    return value


def _joined(pieces: Iterable[Any]) -> str:
    budget = current()
    texts: list[str] = []
    for piece in pieces:
        texts.append(str(piece))
        budget.charge(len(texts[-1]))
    return "".join(texts)

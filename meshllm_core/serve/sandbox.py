"""A Jinja environment for templates that strangers wrote: no reach outside, and bounded work.

Jinja's own sandbox keeps a template from attributes it must not touch; it does not keep it from looping
or from growing values. Here loops, calls, and every place where a value is built are led past a budget,
and what could grow a value out of sight of it is taken away.
"""

from collections.abc import Callable, Iterable, Sized
from functools import wraps
from typing import Any, cast

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from meshllm_core.serve.budget import CALL, Counted, current
from meshllm_core.serve.growth import check_binop, check_filter, checked_arguments

_UNBOUNDED_FILTERS = (
    *("batch", "center", "filesizeformat", "forceescape", "pprint", "random"),
    *("slice", "striptags", "urlencode", "urlize", "wordwrap", "xmlattr"),
)
_UNBOUNDED_METHODS = frozenset(
    {"center", "encode", "expandtabs", "ljust", "maketrans", "rjust", "translate", "zfill"}
)
_COUNTED, _JOINED, _BUILT, _SCANNED = (
    f"meshllm-{what}" for what in ("counted", "joined", "built", "scanned")
)


class _Meter(NodeTransformer):
    """Leads loops, joins and literals of a template past the budget."""

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        node.iter = _through(_COUNTED, cast(nodes.Expr, node.iter))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:
        self.generic_visit(node)
        return _through(_JOINED, nodes.List(node.nodes, lineno=node.lineno))

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:
        self.generic_visit(node)
        return _through(_BUILT, node) if isinstance(node.arg, nodes.Slice) else node

    def visit_Operand(self, node: nodes.Operand) -> nodes.Operand:
        self.generic_visit(node)
        node.expr = _through(_SCANNED, node.expr)
        return node

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
        self.filters |= {_COUNTED: Counted, _JOINED: _joined, _BUILT: _built, _SCANNED: _scanned}
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
        """Also keeps away methods whose result has any length one likes."""
        if isinstance(obj, (int, float, bytes)) or (isinstance(obj, str) and attr in _UNBOUNDED_METHODS):
            return False
        return super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Check the size of the result before it exists."""
        check_binop(operator, left, right)
        result = super().call_binop(context, operator, left, right)
        current().charge_value(result)
        return result

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call, for one step and the size of the result."""
        budget = current()
        budget.step(CALL)
        if isinstance(obj, LoopContext):
            args = (Counted(args[0]), *args[1:])
        args = checked_arguments(obj, args, kwargs)
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
        budget.scan(value)
        if name == "join" and not isinstance(value, Sized):
            value = list(Counted(value))
        check_filter(name, value, rest, kwargs)
        result = function(*args[: len(args) - len(rest) - 1], value, *rest, **kwargs)
        budget.charge_value(result)
        return result

    return filter_


def _built(value: Any) -> Any:
    current().charge_value(value)
    return value


def _scanned(value: Any) -> Any:
    current().scan(value)
    return value


def _joined(pieces: Iterable[Any]) -> str:
    budget = current()
    texts: list[str] = []
    for piece in pieces:
        texts.append(str(piece))
        budget.charge(len(texts[-1]))
    return "".join(texts)

"""What one render of a chat template may cost. Pure.

Loop rounds and calls cost steps, values that are built cost their size, with shared parts counted as
often as they would be printed. Both have a limit, so time and memory are bounded without a clock, and the
same conversation always renders the same way.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextvars import ContextVar
from typing import Any

from jinja2.exceptions import TemplateError
from jinja2.utils import Namespace

STEP_LIMIT = 1_000_000
"""Loop rounds of one render; a call counts as CALL rounds."""
CALL = 8
SIZE_LIMIT = 64 << 20
"""Characters of all values that one render builds; an element counts as _ITEM."""
_ITEM = 16


class TemplateTooCostly(TemplateError):
    """The template went over one of the limits."""


class Budget:
    """What one render may still spend."""

    def __init__(self, steps: int = STEP_LIMIT, size: int = SIZE_LIMIT) -> None:
        self._steps = steps
        self._size = size
        self._limit = size

    @property
    def spent(self) -> int:
        """Characters and elements so far."""
        return self._limit - self._size

    def step(self, count: int = 1) -> None:
        """One loop round or more. Raises TemplateTooCostly."""
        self._steps -= count
        if self._steps < 0:
            raise TemplateTooCostly("it takes too many steps")

    def charge(self, size: int) -> None:
        """That many characters or elements. Raises TemplateTooCostly."""
        self._size -= size
        if self._size < 0:
            raise TemplateTooCostly("it builds too much text")

    def scan(self, value: object) -> None:
        """A value that is read through once, which is much cheaper than building it."""
        if isinstance(value, Sized):
            self.charge(len(value) // _ITEM)

    def charge_value(self, value: object) -> None:
        """A value that was just built, at the size it would have when printed."""
        pending = [value]
        while pending:
            item = pending.pop()
            if isinstance(item, str):
                self.charge(len(item) + _ITEM)
            elif isinstance(item, Mapping):
                self.charge(len(item) + _ITEM)
                pending.extend(item.keys())
                pending.extend(item.values())
            elif isinstance(item, (list, tuple, set, frozenset)):
                self.charge(len(item) + _ITEM)
                pending.extend(item)
            elif isinstance(item, Namespace):
                pending.append(object.__getattribute__(item, "_Namespace__attrs"))
            else:
                self.charge(_ITEM)


_budget: ContextVar[Budget] = ContextVar("template_budget")


def current() -> Budget:
    """The budget of the render that runs in this context."""
    return _budget.get()


def spend(budget: Budget) -> Callable[[], None]:
    """Make `budget` the one of this context; the answer undoes it."""
    token = _budget.set(budget)
    return lambda: _budget.reset(token)


class Counted:
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

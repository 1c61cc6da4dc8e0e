"""A template that a stranger wrote can neither reach out nor run away."""

import resource
import time
from datetime import datetime

import pytest

from meshllm_core.errors import InvalidRequest
from meshllm_core.serve.chat_template import render_chat

MESSAGES = [{"role": "user", "content": "hello " * 100}]


def render(source: str) -> str:
    return render_chat(source, MESSAGES, now=datetime(2026, 11, 30)).text


def grow(step: str, start: str = "'ab'") -> str:
    """A loop that makes n.x larger with each round."""
    loop = f"{{% for i in range(99) %}}{{% set n.x = {step} %}}{{% endfor %}}"
    return f"{{% set n = namespace(x={start}) %}}{loop}"


RUNAWAY = {
    "nested loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "long range": "{% for i in range(10**9) %}{% endfor %}",
    "doubling by ~": grow("n.x ~ n.x"),
    "doubling by +": grow("n.x + n.x"),
    "nested lists": grow("[n.x, n.x]"),
    "nested tuples": grow("(n.x, n.x)"),
    "nested dicts": grow("{'a': n.x, 'b': n.x}"),
    "nested calls of dict": grow("dict(a=n.x, b=n.x)"),
    "product": "{{ 'a' * 10**9 }}",
    "list product": "{{ [messages] * 10**9 }}",
    "power": "{{ 9 ** (9 ** 9) }}",
    "growing number": grow("n.x * n.x", "3"),
    "percent": "{{ '%999999999d' % 3 }}",
    "percent star": "{{ '%*d' % (999999999, 3) }}",
    "format": "{{ '{:999999999}'.format(3) }}",
    "format filter": "{{ '%999999999d'|format(3) }}",
    "format of many": "{% set x = 'a' * 10**6 %}{{ ('{0}' * 10**4).format(x) }}",
    "format through map": "{{ ['%999999999d']|map('format', 3)|list }}",
    "center": "{{ 'a'.center(10**9) }}",
    "center filter": "{{ 'a'|center(10**9) }}",
    "ljust": "{{ 'a'.ljust(10**9) }}",
    "zfill": "{{ 'a'.zfill(10**9) }}",
    "translate": "{{ ('a' * 10**6).translate({97: 'b' * 10**6}) }}",
    "replace": "{{ ('a' * 10**6).replace('a', 'b' * 10**6) }}",
    "replace by name": "{{ ('a' * 10**6).replace('a', new='b' * 10**6) }}",
    "replace filter": "{{ ('a' * 10**6)|replace('a', 'b' * 10**6) }}",
    "replace filter by name": "{{ ('a' * 10**6)|replace(old='a', new='b' * 10**6) }}",
    "join": "{{ ('b' * 10**6).join(['c'] * 10**5) }}",
    "join of an iterator": "{{ ('b' * 10**6).join(range(99999)|map('string')) }}",
    "join filter": "{{ (['b' * 10**6] * 10**4)|join }}",
    "join filter separator": "{{ range(99999)|join('b' * 10**6) }}",
    "join filter over an iterator": "{{ range(99999)|map('string')|join('b' * 10**6) }}",
    "indent": "{{ 'a'|indent(10**9, first=True) }}",
    "indent text": "{{ ('a\\n' * 10**5)|indent('b' * 99999) }}",
    "tojson indent": "{{ messages|tojson(indent=10**9) }}",
    "tojson separators": "{{ ([1] * 10**5)|tojson(separators=('a' * 10**6, 'b')) }}",
    "join of a huge iterator": "{{ ('b' * 10**4).join(range(99999)|map('string')) }}",
    "percent key": "{{ '%(a)999d' % {'a': 3} }}",
    "percent nested key": "{{ '%((a))999d' % {'(a)': 3} }}",
    "percent precision": "{{ '%.999999f' % 3 }}",
    "format nested": "{{ '{:{}}'.format(3, 999999999) }}",
    "integer bytes": "{{ (3).to_bytes(10**9, 'big') }}",
    "bytes": "{{ 'a'.encode().ljust(10**9) }}",
    "round": "{{ 5|round(-10**8) }}",
    "round up": "{{ 5|round(10**8, 'ceil') }}",
    "slices": ("{% set x = 'a' * 10**6 %}{% for i in range(99999) %}{% set y = x[1:] %}{% endfor %}"),
    "searches": ("{% set x = 'a' * 10**7 %}{% for i in range(99999) %}{{ 'b' in x }}{% endfor %}"),
    "batch": "{{ [1]|batch(10**9, 'x')|list }}",
    "slice": "{{ [1]|slice(10**9)|list }}",
    "lipsum": "{{ lipsum(10**6) }}",
    "sum of lists": "{{ (range(99999)|map('list')|list)|sum(start=[]) }}",
    "macro": "{% macro f(n) %}{{ f(n) ~ f(n) }}{% endmacro %}{{ f(1) }}",
    "wide macro": (
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(99) }}"
    ),
    "recursive loop": "{% for m in messages recursive %}{{ loop(messages) }}{{ loop(messages) }}{% endfor %}",
    "block of text": "{% set x %}{% for i in range(99999) %}{{ [messages] * 2 }}{% endfor %}{% endset %}",
    "output": "{% for i in range(99999) %}{{ messages[0].content }}{% endfor %}",
    "strftime": "{{ strftime_now('%999999999d') }}",
    "deep source": "{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}",
    "many parts": "{{ " + "+".join(["1"] * 20_000) + " }}",
}


@pytest.mark.parametrize("name", RUNAWAY)
def test_runaway_templates_are_stopped(name: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    with pytest.raises(InvalidRequest, match="chat template") as caught:
        render(RUNAWAY[name])
    assert "MemoryError" not in caught.value.message, "it was tried"
    assert time.process_time() - began < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 512 << 10  # KiB


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(a=1) }}",
        "{{ raise_exception.__globals__ }}",
        "{{ strftime_now.__globals__['json'] }}",
        "{{ '{0.__class__}'.format(1).x }}",
        "{{ self._TemplateReference__context }}{{ self.__init__.__globals__ }}",
        "{% include 'file' %}",
        "{% import 'os' as os %}",
        "{% extends 'file' %}",
        "{{ range.__self__ }}{{ range.__self__.x }}",
        "{{ (messages|attr('__class__')).x }}",
    ],
)
def test_nothing_outside_is_reached(source: str) -> None:
    # Jinja prints what it refuses to give as nothing.
    try:
        assert not render(source).strip()
    except InvalidRequest as error:
        assert "chat template" in error.message


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ {'a': '<é>'}|tojson }}", '{"a": "<é>"}'),
        (
            "{{ {'b': 1, 'a': '<é>'}|tojson(ensure_ascii=True, sort_keys=True) }}",
            '{"a": "<\\u00e9>", "b": 1}',
        ),
        ("{{ [1, 2]|tojson(indent=2) }}", "[\n  1,\n  2\n]"),
        ("{{ {'a': 1}|tojson(separators=(',', ':')) }}", '{"a":1}'),
        ("{% for i in range(9) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "012"),
        ("{% for i in range(3) if i %}{{ loop.index }}/{{ loop.length }} {% endfor %}", "1/2 2/2 "),
        ("{% for i in [1, 2] %}{{ loop.previtem }}<{{ loop.last }}>{% endfor %}", "<False>1<True>"),
        ("{% for i in [] %}x{% else %}none{% endfor %}", "none"),
        ("{% for i in nothing %}x{% endfor %}.", "."),
        ("{% generation %}said{% endgeneration %}", "said"),
        ("{{ ['a', 'b']|join(', ') }}{{ 'x' ~ 1 ~ none }}", "a, bx1None"),
        ("{{ range(3)|map('string')|join('-') }}", "0-1-2"),
        ("{{ [{'a': 1}, {'a': 2}]|map(attribute='a')|sum }}", "3"),
        (
            "{{ 'a\nb'|indent(2) }}{{ 'aXb'|replace('X', '') }}{{ '%s in 2026: 100%%' % 'a' }}",
            "a\n  baba in 2026: 100%",
        ),
        ("{{ '{} 2026 {a:.2f} {{}}'.format(1, a=2.5) }}{{ '%05.1f'|format(2) }}", "1 2026 2.50 {}002.0"),
        ("{{ 2.345|round(1) }}{{ 'é' == 'é' }}{{ 2 in [1, 2] }}{{ 'ab'[1:] }}", "2.3TrueTrueb"),
        ("{{ 'a,b'.split(',')[-1].strip() }}{{ ' x '|trim }}{{ 'A'.lower() }}", "bxa"),
        (
            "{% set n = namespace(t='') %}{% for m in 'abc' %}{% set n.t = m + n.t %}{% endfor %}{{ n.t }}",
            "cba",
        ),
        ("{% macro m(a, b=2) %}<{{ a }}{{ b }}>{% endmacro %}{{ m('x') }}{{ m('y', b='z') }}", "<x2><yz>"),
        ("{{ (1, 2)|length }}{{ {'k': [1]}.items()|list }}", "2[('k', [1])]"),
        ("{% set a, b = (1, 2) %}{{ b }}{% for k, v in {'x': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "2x1"),
        ("{% for i in range(3) recursive %}{{ i }}{{ loop([7]) if i == 1 }}{% endfor %}", "0172"),
        ("    {% if true %}\n  x\n    {% endif %}\ny", "  x\ny"),
    ],
)
def test_what_templates_use_works(source: str, expected: str) -> None:
    assert render(source) == expected


def test_a_long_conversation_is_no_runaway() -> None:
    messages = [{"role": ("user", "assistant")[i % 2], "content": "x" * 1_000} for i in range(2_000)]
    text = render_chat("", messages, now=datetime(2026, 11, 30)).text
    assert len(text) > 2_000_000

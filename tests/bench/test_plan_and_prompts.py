"""Sizes are refused before anything is sent; prompts are of one length and share no beginning."""

import pytest

from meshllm_core.bench.calibrate import calibrate
from meshllm_core.bench.completion import Target
from meshllm_core.bench.endpoint import parse_endpoint
from meshllm_core.bench.plan import Plan, parse_clients
from meshllm_core.bench.prompts import WORDS, PromptMaker
from meshllm_core.bench.stats import summarize
from meshllm_core.errors import ConfigError, InvalidRequest
from tests.bench.stub import Behaviour, stub_server


@pytest.mark.parametrize(("text", "host_header", "prefix"), [
    ("http://127.0.0.1:9337", "127.0.0.1:9337", "/v1"),
    ("127.0.0.1:9337/v1/", "127.0.0.1:9337", "/v1"),
    ("https://example.org", "example.org", "/v1"),
    ("https://example.org:8443/openai/v2", "example.org:8443", "/openai/v2"),
    ("http://[::1]:80/v1", "[::1]", "/v1"),
])  # fmt: skip
def test_base_urls(text: str, host_header: str, prefix: str) -> None:
    endpoint = parse_endpoint(text)
    assert (endpoint.host_header, endpoint.prefix) == (host_header, prefix)


@pytest.mark.parametrize("text", [
    "ftp://host", "http://", "http://host:99999", "http://a:b@host", "http://host/?x=1", "http://host/#x",
    "http://ho st", "http://host/a\r\nX: y", "http://höst", "http://[::1",
])  # fmt: skip
def test_urls_that_are_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_endpoint(text, param="--left")
    assert caught.value.param == "--left"


def test_a_key_cannot_smuggle_a_header() -> None:
    with pytest.raises(ConfigError):
        parse_endpoint("http://host", api_key="a\r\nX-Other: b")


@pytest.mark.parametrize("values", [
    {"clients": ()}, {"clients": (0,)}, {"clients": (65,)}, {"prompt_tokens": 0}, {"max_tokens": 0},
    {"max_tokens": 10**6}, {"prompt_tokens": 10**6}, {"runs": 0}, {"warmup": -1}, {"time_limit": 0.5},
    {"time_limit": float("nan")}, {"reuse": True, "prompt_tokens": 40}, {"clients": (64,), "runs": 100},
])  # fmt: skip
def test_plans_that_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as caught:
        Plan(**values)  # type: ignore[arg-type]
    assert (caught.value.param or "").startswith("--")


def test_levels() -> None:
    assert parse_clients("1,4,4") == (1, 4)
    for text in ("", "1,", "a", "1.5"):
        with pytest.raises(ConfigError):
            parse_clients(text)


def test_prompts_differ_in_order_only() -> None:
    maker = PromptMaker(512, 1)
    prompts = [maker.make("left", 1, run, client) for run in range(5) for client in range(4)]
    assert len({tuple(sorted(prompt.split())) for prompt in prompts}) == 1
    for i, one in enumerate(prompts):
        for other in prompts[:i]:
            assert one.split()[:4] != other.split()[:4]
    assert maker.make("left", 1, 0, 0) == prompts[0]
    assert PromptMaker(512, 2).make("left", 1, 0, 0) != prompts[0]


def test_reuse_shares_all_but_the_tail() -> None:
    one, other = (PromptMaker(100, 1, shared_words=68).make("x", i).split() for i in range(2))
    assert one[:68] == other[:68]
    assert one[68:] != other[68:]
    assert sorted(one) == sorted(other)


def test_words_are_plain_and_distinct() -> None:
    assert len(set(WORDS)) == len(WORDS) > 200
    assert all(word.isascii() and word.islower() and word.isalpha() for word in WORDS)


@pytest.mark.parametrize("tokens_per_word", [1.0, 1.3, 2.0])
@pytest.mark.parametrize("template", [0, 1, 30])
async def test_calibration_reaches_the_length_by_the_servers_count(
    tokens_per_word: float, template: int
) -> None:
    def count(prompt: str) -> int:
        return template + round(len(prompt.split()) * tokens_per_word)

    async with stub_server(Behaviour(count_tokens=count)) as stub:
        target = Target(parse_endpoint(stub.url), "stub")
        _, maker = await calibrate(target, Plan(prompt_tokens=512))
        assert abs(count(maker.make("any")) - 512) <= (0 if tokens_per_word < 2 else 1)
        assert len(stub.bodies) <= 10
        assert all(body["max_tokens"] == 1 for body in stub.bodies)


async def test_a_template_longer_than_the_prompt_is_named() -> None:
    async with stub_server(Behaviour(count_tokens=lambda prompt: 100 + len(prompt.split()))) as stub:
        with pytest.raises(InvalidRequest, match="nearest has 101") as caught:
            await calibrate(Target(parse_endpoint(stub.url), "stub"), Plan(prompt_tokens=50))
    assert caught.value.param == "--prompt-tokens"


def test_summaries() -> None:
    summary = summarize([3.0, None, 1.0, 2.0])
    assert summary is not None
    assert (summary.median, summary.lowest, summary.highest, summary.count) == (2.0, 1.0, 3.0, 3)
    assert summary.spread == 1.0
    assert summarize([None]) is None

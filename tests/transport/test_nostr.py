"""The notice board against a real relay: what is put up is found, what is taken down is gone."""

import asyncio
import os
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import nostr_sdk
import pytest

from meshllm_core.discovery.listing import KIND, TOPIC
from meshllm_core.errors import DiscoveryError
from meshllm_core.transport import nostr_key
from meshllm_core.transport.nostr import LISTINGS, PER_AUTHOR, NostrBoard
from tests.support.relay import relay, silent_relay

NOBODY = "ws://127.0.0.1:1"


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with relay() as running:
        yield running


@pytest.fixture
async def board(url: str, tmp_path: Path) -> AsyncIterator[NostrBoard]:
    opened = NostrBoard([url], key_file=tmp_path / "key")
    yield opened
    await opened.close()


def soon(seconds: int = 100) -> int:
    return int(time.time()) + seconds


async def contents(board: NostrBoard) -> list[str]:
    return [raw.content for raw in (await board.listings()).listings]


async def test_what_is_put_up_is_found_with_its_tags(board: NostrBoard, url: str) -> None:
    expires = soon()
    assert await board.publish("hello", "meshllm-1", expires) == {url: ""}
    fetched = await board.listings()
    (raw,) = fetched.listings
    assert (raw.content, raw.identifier) == ("hello", "meshllm-1")
    assert ("expiration", str(expires)) in raw.tags
    assert ("t", TOPIC) in raw.tags
    assert fetched.relays == {url: ""}


async def test_the_later_one_replaces_the_earlier_within_the_same_second(board: NostrBoard) -> None:
    for text in ("first", "second", "third"):
        await board.publish(text, "meshllm-1", soon())
    assert await contents(board) == ["third"]


async def test_what_is_taken_down_is_gone_at_once_and_can_come_back(board: NostrBoard, url: str) -> None:
    await board.publish("hello", "meshllm-1", soon())
    await board.publish("other", "meshllm-2", soon())
    assert await board.withdraw("meshllm-1") == {url: ""}
    assert await contents(board) == ["other"]
    await board.publish("again", "meshllm-1", soon())
    assert sorted(await contents(board)) == ["again", "other"]


async def test_another_start_takes_down_what_an_earlier_one_put_up(url: str, tmp_path: Path) -> None:
    boards = [NostrBoard([url], key_file=tmp_path / "key") for _ in range(2)]
    await boards[0].publish("hello", "meshllm-1", soon())
    await asyncio.sleep(1.1)
    await boards[1].withdraw("meshllm-1")
    assert await contents(boards[1]) == []
    for board in boards:
        await board.close()


async def test_the_relay_itself_deletes_it(board: NostrBoard, url: str) -> None:
    await board.publish("hello", "meshllm-1", soon())
    await board.withdraw("meshllm-1")
    client = nostr_sdk.ClientBuilder().build()
    address = nostr_sdk.RelayUrl.parse(url)
    await client.add_relay(address, and_connect=True)
    wanted = nostr_sdk.Filter().kind(nostr_sdk.Kind(KIND))
    assert await client.fetch_events(nostr_sdk.ReqTarget.single(address, [wanted])) == []
    await client.shutdown()


async def test_a_relay_says_no_in_words(board: NostrBoard, url: str) -> None:
    outcome = await board.publish("late", "meshllm-1", soon(-10))
    assert "expired" in outcome[url]


async def test_dead_relays_cost_the_others_nothing(url: str, tmp_path: Path) -> None:
    async with silent_relay() as silent:
        board = NostrBoard([NOBODY, silent, url], key_file=tmp_path / "key")
        outcome = await board.publish("hello", "meshllm-1", soon(), seconds=0.5)
        assert outcome[url] == ""
        assert "refused" in outcome[NOBODY]
        assert outcome[silent]
        started = time.monotonic()
        fetched = await board.listings()
        assert time.monotonic() - started < 3
        assert [raw.content for raw in fetched.listings] == ["hello"]
        assert (fetched.relays[url], bool(fetched.relays[NOBODY])) == ("", True)
        assert fetched.relays[silent] == "no answer in time"
        await board.close()


async def test_a_relay_that_comes_back_is_used_again(tmp_path: Path) -> None:
    running = nostr_sdk.LocalRelayBuilder().addr("127.0.0.1").build()
    await running.run()
    address = str(await running.url())
    board = NostrBoard([address], key_file=tmp_path / "key")
    assert await board.publish("hello", "meshllm-1", soon()) == {address: ""}
    running.shutdown()
    await asyncio.sleep(0.1)
    assert (await board.publish("hello", "meshllm-1", soon(), seconds=1))[address]
    again = nostr_sdk.LocalRelayBuilder().addr("127.0.0.1").port(int(address.rpartition(":")[2])).build()
    await again.run()
    assert await board.publish("hello", "meshllm-1", soon()) == {address: ""}
    await board.close()
    again.shutdown()


async def flood(url: str, contents: list[tuple[str, str]]) -> None:
    """Puts up (d, content) pairs, all with one key, whatever their size."""
    keys, client = nostr_sdk.Keys.generate(), nostr_sdk.ClientBuilder().build()
    await client.add_relay(nostr_sdk.RelayUrl.parse(url), and_connect=True)
    for d, content in contents:
        tags = [nostr_sdk.Tag.identifier(d), nostr_sdk.Tag.hashtag(TOPIC)]
        await client.send_event(
            nostr_sdk.EventBuilder(nostr_sdk.Kind(KIND), content).tags(tags).finalize(keys)
        )
    await client.shutdown()


async def test_one_author_cannot_crowd_out_the_others(board: NostrBoard, url: str) -> None:
    await board.publish("good", "meshllm-1", soon())
    await flood(url, [(str(number), "spam") for number in range(PER_AUTHOR * 3)])
    found = await contents(board)
    assert found.count("spam") == PER_AUTHOR
    assert "good" in found


async def test_events_that_are_too_large_are_left_out(board: NostrBoard, url: str) -> None:
    await board.publish("good", "meshllm-1", soon())
    await flood(url, [("1", "x" * 60_000)])
    assert await contents(board) == ["good"]


async def test_more_events_than_a_relay_may_give(board: NostrBoard, url: str) -> None:
    await flood(url, [(str(number), "spam") for number in range(LISTINGS + 20)])
    assert len(await contents(board)) == PER_AUTHOR


async def test_nothing_is_contacted_before_something_is_asked(tmp_path: Path) -> None:
    taken: list[asyncio.StreamWriter] = []
    async with silent_relay(taken) as silent:
        board = NostrBoard([silent], key_file=tmp_path / "key")
        await asyncio.sleep(0.1)
        assert (taken, (tmp_path / "key").exists()) == ([], False)
        await board.listings(timeout=0.3)
        assert len(taken) == 1
        await board.close()


def test_importing_the_board_does_not_import_the_library() -> None:
    program = "import sys, meshllm_core.transport.nostr; sys.exit('nostr_sdk' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


async def test_a_board_without_a_key_only_reads(url: str) -> None:
    board = NostrBoard([url])
    assert await contents(board) == []
    with pytest.raises(DiscoveryError, match="reading only"):
        await board.publish("x", "d", soon())
    await board.close()


@pytest.mark.parametrize("relays", [[], ["http://x"], ["wss://"], ["wss://a b"], ["nonsense"], ["wss://ä"]])
def test_addresses_that_are_none(relays: list[str]) -> None:
    with pytest.raises(DiscoveryError):
        NostrBoard(relays)


def test_too_many_relays_are_refused_and_doubles_count_once() -> None:
    with pytest.raises(DiscoveryError, match="at most"):
        NostrBoard([f"wss://relay{number}" for number in range(17)])
    assert NostrBoard(["wss://a/", "wss://a"]).relays == ("wss://a",)


def test_the_key_is_private_kept_and_replaceable(tmp_path: Path) -> None:
    path = tmp_path / "data" / "key"
    first = nostr_key.load_or_make(path)
    assert nostr_sdk.Keys.parse(first)
    assert nostr_key.load_or_make(path) == first
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert nostr_key.rotate(path) != first
    assert nostr_key.load_or_make(path) != first
    assert [file.name for file in path.parent.iterdir()] == ["key"]


def test_a_damaged_key_is_named_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("nonsense")
    with pytest.raises(DiscoveryError, match="rotate-key"):
        nostr_key.load_or_make(path)
    assert path.read_text() == "nonsense"

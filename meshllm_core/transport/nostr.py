"""Nostr relays as a notice board: listings are put up, taken down and read. Only nostr-sdk is used here.

nostr-sdk is large and is imported at the first use; no relay is contacted before something is asked
of it. Each relay is dealt with by itself, so that a dead one costs its own time-out and nobody else's.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from meshllm_core.discovery.listing import CONTENT, KIND, TOPIC
from meshllm_core.discovery.relays import check_relays
from meshllm_core.discovery.text import clean_text
from meshllm_core.errors import DiscoveryError
from meshllm_core.transport.nostr_key import load_or_make

T = TypeVar("T")

SECONDS = 5.0
"""For one relay to connect and answer."""
GRACE_SECONDS = 1.5
"""So long the slower relays are waited for after one has answered with listings."""
LISTINGS = 200
"""Listings that are taken from one relay, and in all."""
PER_AUTHOR = 8
"""Listings of one Nostr key: it cannot crowd out the others."""

_EVENT = 2 * CONTENT
"""Bytes of an event; larger ones are dropped unread."""
_DELETION = 5
_WORDS = 200


@dataclass(frozen=True)
class RawListing:
    """An event as a relay gave it, signed by its Nostr key; its content is not verified yet."""

    content: str
    tags: tuple[tuple[str, ...], ...]
    author: str
    """Nostr public key, hexadecimal."""
    created_at: int
    """Seconds since the epoch, as the author says."""

    @property
    def identifier(self) -> str:
        """The `d` tag; empty when there is none."""
        return next((tag[1] for tag in self.tags if len(tag) > 1 and tag[0] == "d"), "")


@dataclass(frozen=True)
class Fetched:
    """What the relays had."""

    listings: tuple[RawListing, ...]
    """The newest of each author and `d` tag, at most LISTINGS, newest first."""
    relays: dict[str, str]
    """Each relay that was asked, with what went wrong; empty: it answered."""


class NostrBoard:
    """A few relays. Not to be used from more than one event loop."""

    def __init__(
        self, relays: Sequence[str], *, key_file: Path | None = None, wall: Callable[[], float] = time.time
    ) -> None:
        """`key_file` holds the Nostr key and is made at the first publication; only readers need none.

        Raises DiscoveryError for an address that is none.
        """
        self.relays = check_relays(relays)
        self._key_file = key_file
        self._wall = wall
        self._open: dict[str, tuple[Any, Any]] = {}
        self._connecting = {relay: asyncio.Lock() for relay in self.relays}
        self._keys: Any = None
        self._last = 0
        self._published: dict[str, Any] = {}

    async def publish(
        self, content: str, d: str, expires: int, *, seconds: float = SECONDS
    ) -> dict[str, str]:
        """Puts a listing up in the place of the earlier one with this `d` tag.

        `expires`: seconds since the epoch. Returns each relay with what it refused it for; empty text: it
        took it. Raises DiscoveryError when the Nostr key cannot be read or made.
        """
        event = await self._event(content, d, expires)

        async def put_up(relay: Any) -> None:
            await relay.send_event(event, ok_timeout=timedelta(seconds=seconds))

        return await self._each(put_up, seconds)

    async def withdraw(self, d: str, *, seconds: float = SECONDS) -> dict[str, str]:
        """Takes the listing with this `d` tag down; returns as `publish` does.

        An empty listing that ends at once replaces it, and then both are asked to be deleted (NIP-09):
        relays that know only one of the two drop it as well.
        """
        earlier = self._published.get(d)
        ended = await self._event("", d, int(max(self._wall(), self._last + 1)) + 2)
        sdk, author = _sdk(), ended.author().to_hex()
        tags = [
            sdk.Tag.custom("a", [f"{KIND}:{author}:{d}"]),
            sdk.Tag.custom("k", [str(KIND)]),
            *(sdk.Tag.event(event) for event in (earlier, self._published.pop(d)) if event is not None),
        ]
        deletion = self._sealed(sdk.EventBuilder(sdk.Kind(_DELETION), "").tags(tags))

        async def take_down(relay: Any) -> None:
            limit = timedelta(seconds=seconds)
            try:
                await relay.send_event(ended, ok_timeout=limit)
            except sdk.NostrSdkError:
                await relay.send_event(deletion, ok_timeout=limit)
            else:
                with contextlib.suppress(sdk.NostrSdkError):
                    await relay.send_event(deletion, ok_timeout=limit)

        return await self._each(take_down, seconds)

    async def listings(self, timeout: float = SECONDS) -> Fetched:
        """What is up now, from all relays, within `timeout` seconds.

        Once one relay has answered with listings, the others get GRACE_SECONDS more.
        """
        await asyncio.to_thread(_sdk)
        tasks = {
            relay: asyncio.create_task(self._guarded(relay, self._fetch, timeout)) for relay in self.relays
        }
        try:
            await _wait(tasks.values(), timeout)
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
        answers: list[list[RawListing]] = []
        words: dict[str, str] = {}
        for relay, task in tasks.items():
            outcome = "no answer in time" if task.cancelled() else task.result()
            words[relay] = outcome if isinstance(outcome, str) else ""
            if not isinstance(outcome, str):
                answers.append(outcome)
        return Fetched(_newest(answers), words)

    async def close(self) -> None:
        """Ends all connections."""
        while self._open:
            _, (client, _) = self._open.popitem()
            await client.shutdown()

    async def _event(self, content: str, d: str, expires: int) -> Any:
        # Both take a moment when they are done for the first time, and the node goes on meanwhile.
        sdk = await asyncio.to_thread(_sdk)
        self._keys = self._keys or await asyncio.to_thread(self._load_keys)
        tags = [
            sdk.Tag.identifier(d),
            sdk.Tag.hashtag(TOPIC),
            sdk.Tag.expiration(sdk.Timestamp.from_secs(expires)),
        ]
        event = self._sealed(sdk.EventBuilder(sdk.Kind(KIND), content).tags(tags))
        self._published[d] = event.id()
        return event

    def _load_keys(self) -> Any:
        if self._key_file is None:
            raise DiscoveryError("This board was opened for reading only.")
        return _sdk().Keys.parse(load_or_make(self._key_file))

    def _sealed(self, builder: Any) -> Any:
        """Relays keep the event with the larger time, and either of two with the same one: never twice."""
        self._last = max(int(self._wall()), self._last + 1)
        return builder.custom_created_at(_sdk().Timestamp.from_secs(self._last)).finalize(self._keys)

    async def _each(self, act: Callable[[Any], Awaitable[None]], seconds: float) -> dict[str, str]:
        outcomes = await asyncio.gather(*(self._guarded(relay, act, seconds) for relay in self.relays))
        return {relay: outcome or "" for relay, outcome in zip(self.relays, outcomes, strict=True)}

    async def _fetch(self, relay: Any) -> list[RawListing]:
        sdk = _sdk()
        wanted = sdk.Filter().kind(sdk.Kind(KIND)).hashtag(TOPIC).limit(LISTINGS)
        events = await relay.fetch_events(wanted, timedelta(seconds=SECONDS), max_events=LISTINGS)
        return [_raw(event) for event in events if event.kind().as_u16() == KIND and event.verify()]

    async def _guarded(self, url: str, act: Callable[[Any], Awaitable[T]], seconds: float) -> T | str:
        """What `act` returns for a relay that is connected, or the words of what went wrong."""
        sdk = _sdk()
        try:
            async with asyncio.timeout(seconds):
                return await act(await self._connected(url, seconds))
        except TimeoutError:
            return "no answer in time"
        except sdk.NostrSdkError as error:
            return _words(error)

    async def _connected(self, url: str, seconds: float) -> Any:
        sdk = _sdk()
        async with self._connecting[url]:
            client, relay = self._open.pop(url, (None, None))
            if relay is None or relay.status() != sdk.RelayStatus.CONNECTED:
                if client is not None:
                    await client.shutdown()
                client, relay = await _connect(url, seconds)
            self._open[url] = client, relay
        return relay


async def _connect(url: str, seconds: float) -> tuple[Any, Any]:
    """A client for one relay: a relay whose first attempt was broken off can never be connected again."""
    sdk = _sdk()
    client, address = sdk.ClientBuilder().build(), sdk.RelayUrl.parse(url)
    limits = sdk.RelayLimits().message_max_size(2 * _EVENT).event_max_size(_EVENT).event_max_num_tags(32)
    options = sdk.RelayOptions().reconnect(False).verify_subscriptions(True).limits(limits)
    try:
        await client.add_relay(address, opts=options)
        relay = await client.relay(address)
        await relay.try_connect(timedelta(seconds=seconds))
    except BaseException:
        await client.shutdown()
        raise
    return client, relay


async def _wait(tasks: "Collection[asyncio.Task[list[RawListing] | str]]", timeout: float) -> None:
    """Until all are done, or `timeout` has passed, or GRACE_SECONDS after one came with listings."""
    loop = asyncio.get_running_loop()
    deadline, pending = loop.time() + timeout, set(tasks)
    while pending and (left := deadline - loop.time()) > 0:
        done, pending = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if any(task.result() and not isinstance(task.result(), str) for task in done):
            deadline = min(deadline, loop.time() + GRACE_SECONDS)


def _newest(answers: Sequence[Sequence[RawListing]]) -> tuple[RawListing, ...]:
    newest: dict[tuple[str, str], RawListing] = {}
    for raw in (raw for answer in answers for raw in answer):
        known = newest.get((raw.author, raw.identifier))
        if known is None or known.created_at < raw.created_at:
            newest[raw.author, raw.identifier] = raw
    kept: list[RawListing] = []
    authors: dict[str, int] = {}
    for raw in sorted(newest.values(), key=lambda raw: -raw.created_at):
        authors[raw.author] = authors.get(raw.author, 0) + 1
        if raw.content and authors[raw.author] <= PER_AUTHOR:
            kept.append(raw)
    return tuple(kept[:LISTINGS])


def _raw(event: Any) -> RawListing:
    tags = tuple(tuple(tag.to_vec()) for tag in event.tags())
    return RawListing(event.content(), tags, event.author().to_hex(), event.created_at().as_secs())


def _words(error: Exception) -> str:
    """What a relay or the network said, fit to be shown."""
    return clean_text(str(error).strip("'\""), _WORDS) or "it failed without a reason"


def _sdk() -> Any:
    import nostr_sdk

    return nostr_sdk

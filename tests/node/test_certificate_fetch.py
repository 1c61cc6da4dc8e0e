"""Measurements between members over real sockets: fetched, checked, counted, and given to no guest."""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from meshllm_core.certify.record import seal_certificate
from meshllm_core.config import load_settings
from meshllm_core.errors import DownloadFailed, MeshError
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.storage import load_or_create
from meshllm_core.membership.owner import sign_node
from meshllm_core.mesh.owner_store import OwnerStore
from meshllm_core.models.foreign_certificates import ForeignCertificates
from meshllm_core.node import certificate_fetch
from meshllm_core.node.believed import known_records
from meshllm_core.node.certificate_claims import file_id
from meshllm_core.node.certificate_fetch import REFUSED, CertificateFetcher
from meshllm_core.node.mesh_calls import MeshCalls
from meshllm_core.node.stage_desk import StageDesk
from meshllm_core.node.stage_host import Surroundings
from meshllm_core.paths import Paths, default_paths
from meshllm_core.serve.answering import Asker
from meshllm_core.transport.link import Channel, ChannelKind
from meshllm_core.transport.transfer import fetch_file, serve_file
from meshllm_core.wire import limits
from tests.certify.support import certificate
from tests.mesh.members import Member, joined, until

OWNER = SigningKey(b"o" * 32)


def hash_of(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()


@dataclass
class Giver:
    """A member that announces hashes and gives a file for each: the right one, another, or none."""

    member: Member
    folder: Path
    instead: Callable[[Channel], Awaitable[None]] | None = None
    """Answers in place of a giver's usual way."""
    asked: list[str] = field(default_factory=list)
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    def announce(self, given: Mapping[bytes, bytes]) -> None:
        """Bytes to give by announced hash; empty: it says that it has no such file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for digest, raw in given.items():
            if raw:
                (self.folder / digest.hex()).write_bytes(raw)
        self.member.claims = tuple(given)

    async def give(self) -> None:
        """Until cancelled."""
        while True:
            while self.member.calls:
                _, channel = self.member.calls.pop()
                task = asyncio.create_task(self._answer(channel))
                self._tasks.add(task)
            await asyncio.sleep(0.01)

    async def _answer(self, channel: Channel) -> None:
        if self.instead is not None:
            await self.instead(channel)
            return
        with contextlib.suppress(MeshError):
            await serve_file(channel, self.lookup)

    def lookup(self, asked: str) -> Path | None:
        self.asked.append(asked)
        file = self.folder / asked.rpartition("/")[2]
        return file if file.is_file() else None


@dataclass
class Asking:
    """A member that fetches."""

    member: Member
    paths: Paths
    fetcher: CertificateFetcher

    @property
    def kept(self) -> frozenset[bytes]:
        return ForeignCertificates(self.paths.certificates).hashes()

    async def gather(self) -> None:
        await self.fetcher.gather()

    async def heard(self, giver: Giver) -> None:
        """Until the giver's last announcement is here."""

        def there() -> bool:
            session = self.member.service.session
            state = session.mesh.peer(giver.member.key.public) if session is not None else None
            said = state.announcement if state is not None else None
            return said is not None and said.codec_certificates == giver.member.claims

        await until(there, 15.0)


def member_of(folder: Path, name: str) -> tuple[Member, Paths]:
    paths = default_paths({"MESHLLM_HOME": str(folder / name)})
    return Member(name, folder / name, key=load_or_create(paths).key), paths


@contextlib.asynccontextmanager
async def pair(
    folder: Path, given: Callable[[SigningKey], Mapping[bytes, bytes]], *, owned: bool = False
) -> AsyncIterator[tuple[Asking, Giver]]:
    """Anna, who asks, and Bert, who announces what `given` makes of his key."""
    (anna, paths), (bert, berts) = member_of(folder, "Anna"), member_of(folder, "Bert")
    if owned:
        for member, where in ((anna, paths), (bert, berts)):
            key = member.key.public
            OwnerStore(where).install(sign_node(OWNER, key, wall=time.time()), key)
    giver = Giver(bert, folder / "given")
    giver.announce(given(bert.key))
    fetcher = CertificateFetcher(paths, lambda: anna.service.session, lambda: anna.key.public)
    giving = asyncio.create_task(giver.give())
    try:
        await joined(anna, bert)
        asking = Asking(anna, paths, fetcher)
        await asking.heard(giver)
        yield asking, giver
    finally:
        giving.cancel()
        await asyncio.gather(giving, *giver._tasks, return_exceptions=True)
        await asyncio.gather(anna.service.stop(), bert.service.stop())


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_fetch, "PAUSE_SECONDS", 0.0)


def sealed(key: SigningKey, cut: int) -> bytes:
    return seal_certificate(key, certificate(cuts=(cut,)))


def honest(key: SigningKey) -> dict[bytes, bytes]:
    return {hash_of(raw): raw for raw in (sealed(key, cut) for cut in range(1, 4))}


async def test_what_is_announced_is_fetched_once_and_shown_as_a_strangers(tmp_path: Path) -> None:
    async with pair(tmp_path, honest) as (anna, bert):
        await anna.gather()
        assert anna.kept == set(bert.member.claims)
        await anna.gather()
        assert sorted(bert.asked) == sorted(file_id(digest) for digest in bert.member.claims)
        known = known_records(anna.paths, anna.member.key.public, time.time())
        assert known.believed == ()
        assert {one.signer for one in known.strangers} == {bert.member.key.public}
        assert anna.member.refused(REFUSED) == 0


async def test_of_a_node_of_the_same_owner_it_is_believed_also_once_that_is_away(tmp_path: Path) -> None:
    async with pair(tmp_path, honest, owned=True) as (anna, bert):
        await anna.gather()
        me = anna.member.key.public
        assert {one.signer for one in known_records(anna.paths, me, time.time()).kin} == {
            bert.member.key.public
        }
        await bert.member.service.stop()
        await anna.gather()
        assert len(known_records(anna.paths, me, time.time()).kin) == 3
        # Its owner's word is good for some days only.
        assert known_records(anna.paths, me, time.time() + 30 * 86_400).kin == ()


async def test_what_a_blocked_node_measured_does_not_stay(tmp_path: Path) -> None:
    async with pair(tmp_path, honest, owned=True) as (anna, bert):
        await anna.gather()
        assert len(anna.kept) == 3
        anna.member.service.block(bert.member.key.public.hex())
        await anna.gather()
        assert anna.kept == frozenset()


def hostile(key: SigningKey) -> dict[bytes, bytes]:
    """Tampered twice, of another signer, no certificate, too long, not given; one that is sound."""
    raw, forged = sealed(key, 1), sealed(key, 2)
    forged = forged[:-1] + bytes([forged[-1] ^ 1])
    other, long = sealed(SigningKey(b"x" * 32), 3), bytes(limits.RECORD + 1)
    return {
        hash_of(raw): raw,
        hash_of(sealed(key, 2)): forged,
        hash_of(forged): forged,
        hash_of(other): other,
        hash_of(b"noise"): b"noise",
        hash_of(long): long,
        hash_of(b"not given"): b"",
    }


async def test_what_does_not_hold_is_refused_counted_and_not_asked_for_again(tmp_path: Path) -> None:
    async with pair(tmp_path, hostile) as (anna, bert):
        await anna.gather()
        assert anna.kept == {bert.member.claims[0]}
        anna.member.service.environment.refusals.flush()
        await until(lambda: anna.member.refused(REFUSED) == 4, 5.0)
        await anna.gather()
        assert len(bert.asked) == len(bert.member.claims)
        assert len(known_records(anna.paths, anna.member.key.public, time.time()).strangers) == 1


async def test_one_round_is_bounded_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate_fetch, "ROUND", 2)
    async with pair(tmp_path, honest) as (anna, bert):
        await anna.gather()
        assert (len(anna.kept), len(bert.asked)) == (2, 2)
        await anna.gather()
        assert anna.kept == set(bert.member.claims)


async def test_a_member_that_says_nothing_holds_up_for_a_moment_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate_fetch, "GATHER_SECONDS", 0.3)
    async with pair(tmp_path, honest) as (anna, bert):
        bert.instead = lambda _: asyncio.sleep(0)
        began = time.monotonic()
        await anna.gather()
        assert time.monotonic() - began >= 0.3
        began = time.monotonic()
        await anna.gather()
        assert time.monotonic() - began < 0.3
        assert anna.kept == frozenset()


@pytest.mark.parametrize("guest", [False, True])
async def test_members_are_given_it_and_guests_are_not(tmp_path: Path, guest: bool) -> None:
    async with pair(tmp_path, honest) as (anna, bert):
        digest = bert.member.claims[0]

        calls = MeshCalls(_nobody, lambda: _desk(anna.paths), certificates=bert.lookup)
        bert.instead = partial(calls.take, Asker("Anna", anna.member.key.public, guest))
        session = anna.member.service.session
        assert session is not None
        link = session.mesh.link_to(bert.member.key.public).greeted.link
        channel = await link.open(ChannelKind.TRANSFER)
        fetching = fetch_file(channel, file_id(digest), tmp_path / "got")
        if guest:
            with pytest.raises(DownloadFailed, match="has no such file"):
                await fetching
        else:
            assert hash_of((await fetching).path.read_bytes()) == digest


def _nobody() -> NoReturn:
    raise AssertionError("nobody asks for an answer here")


def _desk(paths: Paths) -> StageDesk:
    """That offered no stage to anybody."""
    around = Surroundings(
        settings=load_settings(paths, environ={}),
        paths=paths,
        append=lambda _: None,
        memory_usable=lambda: 0,
        open_transfer=lambda _: _nobody(),
        open_call=lambda _: _nobody(),
        closed=lambda: "",
    )
    return StageDesk(around, lambda kind, detail: None)

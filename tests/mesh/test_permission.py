"""Who may not, in names, and who may instead."""

import asyncio
from pathlib import Path

import pytest

from meshllm_core.errors import NotPermitted
from tests.mesh.members import members, until
from tests.mesh.test_joining import joined_by


async def test_a_refusal_names_who_can(tmp_path: Path) -> None:
    async with members(tmp_path, "anna", "bert", "carl", "dora") as (anna, bert, carl, dora):
        await joined_by(bert, await anna.invite())
        await joined_by(carl, await anna.invite(may_invite=True))
        await joined_by(dora, await carl.invite())
        everybody = (anna, bert, carl, dora)
        await until(lambda: all(x.sees(y) for x in everybody for y in everybody if x is not y))
        await anna.service.stop()
        await until(lambda: bert.sees(anna, "left") and carl.sees(anna, "left"))

        with pytest.raises(NotPermitted, match="may not invite") as refused:
            await bert.invite()
        assert "carl or anna (not there now)" in refused.value.hint

        for confirm in (False, True):
            with pytest.raises(NotPermitted, match=r"^This node may not revoke dora") as refused:
                bert.service.revoke(dora.key.public.hex(), confirm=confirm)
            assert "carl or anna (not there now)" in refused.value.hint
        with pytest.raises(NotPermitted, match=r"^This node may not revoke bert"):
            carl.service.revoke(bert.key.public.hex(), confirm=True)
        assert bert.key.public.hex()[:10] not in refused.value.message
        with pytest.raises(NotPermitted, match=r"^This node may not revoke anna") as refused:
            bert.service.revoke(anna.key.public.hex(), confirm=False)
        assert "founder" in refused.value.hint


async def test_a_founder_that_leaves_is_told_where_the_root_key_is(tmp_path: Path) -> None:
    async with members(tmp_path, "anna", "bert") as (anna, bert):
        await joined_by(bert, await anna.invite())
        await until(lambda: bert.sees(anna) and anna.sees(bert))
        await anna.service.leave()
        assert "root key" in anna.log()
        assert list((tmp_path / "anna").rglob("mesh.msgpack.left-*"))


async def test_members_keep_their_names_while_they_are_away(tmp_path: Path) -> None:
    async with members(tmp_path, "anna", "bert") as (anna, bert):
        await joined_by(bert, await anna.invite())
        await until(lambda: bert.sees(anna) and anna.sees(bert))
        await asyncio.gather(anna.service.stop(), bert.service.stop())
        bert.snapshot = type(bert.snapshot)()
        bert.service = bert.make()
        await bert.service.start()
        await until(lambda: bert.sees(anna, "down"))
        row = bert.peer(anna)
        assert row is not None
        assert row.name == "anna"
        with pytest.raises(NotPermitted) as refused:
            await bert.invite()
        assert "anna (not there now)" in refused.value.hint

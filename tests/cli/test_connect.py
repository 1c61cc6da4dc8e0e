"""`meshllm connect`: words for other programs, from what the running node says of itself."""

import pytest

from meshllm_core.api.snippets import APPS, APPS_BY_NAME, Connection
from meshllm_core.errors import ExitCode
from meshllm_core.paths import Paths
from tests.api.manage.conftest import Node
from tests.cli.conftest import command, playing, write_config


@pytest.mark.parametrize("app", APPS_BY_NAME)
async def test_it_prints_the_text_of_an_app_and_nothing_else(node: Node, app: str) -> None:
    shown = await command("connect", app)
    assert shown.out == APPS_BY_NAME[app].write(Connection(f"{node.url}/v1", "tiny"))
    assert (shown.code, APPS_BY_NAME[app].where in shown.err) == (0, True)


async def test_the_key_is_named_and_never_shown(node: Node, paths: Paths) -> None:
    write_config(paths, 'api_key = "very-secret-key"\n')
    shown = await command("connect", "curl")
    assert "$MESHLLM_API_KEY" in shown.out
    assert "MESHLLM_API_KEY" in shown.err
    listed = await command("connect", "--json")
    assert "very-secret" not in shown.out + shown.err + listed.out


async def test_without_an_app_it_lists_them(node: Node) -> None:
    shown = await command("connect")
    assert all(app.name in shown.out and app.title in shown.out for app in APPS)
    document = (await command("connect", "--json")).document
    assert (document["base_url"], document["model"]) == (f"{node.url}/v1", "tiny")
    assert [row["app"] for row in document["apps"]] == [app.name for app in APPS]
    only = (await command("connect", "aider", "--json")).document
    assert [row["app"] for row in only["apps"]] == ["aider"]


async def test_a_model_that_nobody_serves_is_refused(node: Node) -> None:
    refused = await command("connect", "curl", "--model", "other")
    assert (refused.code, refused.out) == (ExitCode.REQUEST, "")
    assert "Ready are: tiny" in refused.err
    assert "tiny" in (await command("connect", "curl", "--model", "tiny")).out


async def test_an_app_that_is_not_known_is_refused(paths: Paths) -> None:
    async with playing(paths):
        refused = await command("connect", "emacs")
    assert (refused.code, refused.out) == (ExitCode.USAGE, "")
    assert "open-webui" in refused.err

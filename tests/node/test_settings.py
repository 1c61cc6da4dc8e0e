"""The settings over the management API of a real node: where values come from, and how one is changed."""

from pathlib import Path

import pytest

from meshllm_core.api.client import ManagementClient
from meshllm_core.api.schema_config import Config, ConfigRow
from meshllm_core.config import KEYS
from meshllm_core.errors import InvalidRequest, MeshError
from tests.support.nodes import RunningNode, running_node

SECRET = "very-secret-key"


def client_of(node: RunningNode) -> ManagementClient:
    token = (node.home / "data" / "management-token").read_text().strip()
    return ManagementClient(node.console, token=token)


async def row_of(client: ManagementClient, key: str) -> ConfigRow:
    answer = await client.ask("config", Config)
    return next(row for row in answer.rows if row.key == key)


async def test_settings_of_a_running_node(tmp_path: Path) -> None:
    file = tmp_path / "home" / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f'# mine\napi_key = "{SECRET}"\nlanes = 2\nqueue_limit = 9\n')
    with running_node(tmp_path, "--client", environment={"MESHLLM_LANES": "3"}) as node:
        async with client_of(node) as client:
            answer = await client.ask("config", Config)
            rows = {row.key: row for row in answer.rows}
            assert list(rows) == [key.name for key in KEYS]
            assert (answer.file, answer.exists, answer.problem) == (str(file), True, "")
            assert (rows["lanes"].value, rows["lanes"].source, rows["lanes"].origin) == (
                "3",
                "environment",
                "MESHLLM_LANES",
            )
            assert rows["lanes"].in_file
            assert (rows["queue_limit"].source, rows["queue_limit"].origin) == ("file", f"{file}:4")
            assert (rows["ctx_size"].source, rows["ctx_size"].origin) == ("flag", "--ctx-size")
            assert (rows["batch"].source, rows["batch"].in_file) == ("default", False)
            assert (rows["api_key"].value, rows["api_key"].text) == ("(set, hidden)", "")
            assert SECRET not in str(answer)
            assert rows["mmap"].choices == ("true", "false")

            done = await client.act("configure", key="queue_limit", value="17")
            assert done["effect"] == "next_start"
            assert "17 from the node's next start" in done["words"]
            row = await row_of(client, "queue_limit")
            assert (row.value, row.next_value) == ("9", "17")
            assert file.read_text() == f'# mine\napi_key = "{SECRET}"\nlanes = 2\nqueue_limit = 17\n'

            done = await client.act("configure", key="lanes", value="8")
            assert done["effect"] == "none"
            assert "MESHLLM_LANES wins over the file" in done["words"]
            assert (await row_of(client, "lanes")).next_value == "3"
            done = await client.act("configure", key="ctx_size", value="512")
            assert (done["effect"], done["next_value"]) == ("none", "1024")

            await client.act("configure", key="queue_limit")
            row = await row_of(client, "queue_limit")
            assert (row.value, row.next_value, row.in_file) == ("9", "64", False)

            with pytest.raises(MeshError, match="outside its range") as caught:
                await client.act("configure", key="threads", value="-3")
            assert "from 0 to 1,024" in caught.value.hint or "from 0 to 1,024" in str(caught.value)
            with pytest.raises(MeshError, match="no key"):
                await client.act("configure", key="thread", value="3")
            with pytest.raises(InvalidRequest):
                await client.act("configure", value="3")

            file.write_text("prot = 1\n")
            answer = await client.ask("config", Config)
            assert "there is no key 'prot'" in answer.problem
            assert next(row for row in answer.rows if row.key == "port").value != ""

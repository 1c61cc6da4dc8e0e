"""Measuring codecs over the API of a real node: begun, seen in the snapshot, refused twice, ended."""

from pathlib import Path
from typing import Any

import pytest

from meshllm_core.api.client import ManagementClient
from meshllm_core.api.schema_certify import Certificates
from meshllm_core.errors import InvalidRequest, MeshError, NodeError
from meshllm_core.models.embedded import embedded_model
from tests.support.nodes import running_node


@pytest.mark.model
async def test_a_measurement_from_outside(tmp_path: Path) -> None:
    with running_node(tmp_path, "--client") as node:
        token = (node.home / "data" / "management-token").read_text().strip()
        async with ManagementClient(node.console, token=token) as client:
            known = await client.ask("certificates", Certificates)
            assert (known.measured, known.left_out) == ((), 0)
            assert len(known.reviewed) > 90
            wrongs: list[dict[str, Any]] = [{"cuts": [0]}, {"codecs": ["f32"]}, {"cuts": []}]
            for wrong in wrongs:
                with pytest.raises(InvalidRequest):
                    await client.act("certify", model="default", **wrong)
            with pytest.raises(MeshError, match="30 layers"):
                await client.act("certify", model="default", cuts=[30])
            answer = await client.act("certify", model=str(embedded_model()), cuts=[10, 20], codecs=["q8"])
            assert (answer["cuts"], answer["status"]) == ([10, 20], "measuring")
            with pytest.raises(NodeError, match="one at a time"):
                await client.act("certify", model="default")
            node.wait(lambda s: s["certification"]["phase"] == "answering")
            await client.act("cancel_certify")
            ended = node.wait(lambda s: s["certification"]["state"] != "running", 20.0)
            assert ended["certification"]["state"] == "cancelled"
            with pytest.raises(NodeError, match="No measurement"):
                await client.act("cancel_certify")
            assert (await client.ask("certificates", Certificates)).measured == ()
            # A node that stops in the middle of a measurement takes it along.
            await client.act("certify", model="default")
            node.wait(lambda s: s["certification"]["phase"] == "answering")
    assert node.process.returncode == 0
    assert not list((node.home / "cache").glob("certify-*"))

"""Searching the hub: a real local server, and answers that are not to be believed."""

import json

import pytest

from meshllm_core.errors import DownloadFailed, HubUnreachable
from meshllm_core.models import hub_search
from meshllm_core.models.hub import Hub
from meshllm_core.models.hub_search import RESULTS, estimated_bytes, read_search
from meshllm_core.models.quants import QUANTS
from tests.support.hub import LocalHub

FILES = {"m-Q8_0.gguf": b"x", "m-Q4_K_M.gguf": b"x", "mmproj-m-F16.gguf": b"x", "README.md": b"x"}


def test_repositories_with_models_are_found_most_downloaded_first(local_hub: LocalHub, hub: Hub) -> None:
    local_hub.add("owner/tiny-GGUF", FILES, downloads=5, parameters=135_000_000)
    local_hub.add("other/Tiny-GGUF", FILES, downloads=90)
    local_hub.add("other/tiny-papers", {"README.md": b"x"}, downloads=900)
    local_hub.add("other/large-GGUF", FILES)
    found = hub.search("tiny")
    assert [model.repo for model in found] == ["other/Tiny-GGUF", "owner/tiny-GGUF"]
    assert found[1].quants == ("Q8_0", "Q4_K_M")
    assert (found[1].parameters, found[1].downloads, found[1].architecture) == (135_000_000, 5, "llama")
    assert len(hub.search("tiny", 1)) == 1


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (200, b"<html>", "cannot be read"),
        (200, b'{"models": []}', "cannot be read"),
        (404, b"", "no search"),
        (500, b"{}", "500"),
        (429, b"{}", "patience"),
    ],
)
def test_a_hub_that_cannot_search_is_named(
    local_hub: LocalHub, hub: Hub, status: int, body: bytes, words: str
) -> None:
    local_hub.faults.search = (status, body)
    with pytest.raises(DownloadFailed, match=words):
        hub.search("tiny")


def test_an_answer_without_end_is_not_read(
    local_hub: LocalHub, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meshllm_core.models.hub.ANSWER_LIMIT", 1000)
    local_hub.faults.search = (200, b"[" + b" " * 5000)
    with pytest.raises(DownloadFailed, match="longer than 1000 bytes"):
        hub.search("tiny")


def test_nobody_answers() -> None:
    with pytest.raises(HubUnreachable, match="cannot be reached"):
        Hub(endpoint="http://127.0.0.1:9", connect_timeout=1).search("tiny")


def test_what_a_hostile_hub_says_is_bounded_and_cleaned() -> None:
    rows = [
        {"id": "../../etc/passwd", "siblings": [{"rfilename": "a.gguf"}]},
        {"id": "o/\x1b[2Jn", "siblings": [{"rfilename": "a.gguf"}]},
        {
            "id": "owner/name",
            "downloads": -5,
            "gguf": {"total": 10**15, "architecture": "x\x1b[31m" * 100},
            "siblings": [{"rfilename": f"{n}/m-Q4_K_M.gguf"} for n in range(10_000)],
        },
        *({"id": f"owner/n{n}", "siblings": [{"rfilename": "a.gguf"}]} for n in range(500)),
    ]
    found = read_search(json.dumps(rows).encode())
    assert len(found) <= RESULTS
    first = found[0]
    assert (first.repo, first.downloads, first.parameters, first.quants) == ("owner/name", 0, 0, ("Q4_K_M",))
    assert first.architecture.isprintable() and len(first.architecture) <= 40


def test_sizes_are_estimated_near_what_files_have() -> None:
    # Real files of the hub: Qwen3-4B Q4_K_M, Llama-3.1-8B Q8_0 and Q6_K, Qwen2.5-32B IQ4_XS.
    for parameters, quant, real in (
        (4_022_468_096, "Q4_K_M", 2_497_280_256),
        (8_030_261_312, "Q8_0", 8_540_771_328),
        (8_030_261_312, "Q6_K", 6_596_006_912),
        (32_763_876_352, "IQ4_XS", 17_694_176_256),
    ):
        assert estimated_bytes(parameters, quant) == pytest.approx(real, rel=0.05)
    assert estimated_bytes(0, "Q4_K_M") == 0
    assert len(hub_search._BITS) == len(QUANTS)

"""A node with a library, a catalogue and a hub behind it, for the page of models."""

from typing import Any

import msgspec

from meshllm_core.api.schema_models import (
    Catalog,
    CatalogModel,
    FitMark,
    HubFile,
    HubModel,
    HubRepo,
    HubSearch,
    Library,
    LibraryModel,
)
from meshllm_core.state import events as ev
from meshllm_core.state.download_events import DownloadRow
from meshllm_core.state.snapshot import NodeSnapshot
from tests.tui.mesh_samples import meshed
from tests.tui.samples import GIB, MIB, SMALL, START, ScriptedClient, fold

HERE = FitMark(kind="here", need_bytes=5 * GIB, room_bytes=9 * GIB, machines=("workshop",))
OTHER = FitMark(kind="other", need_bytes=12 * GIB, room_bytes=20 * GIB, machines=("attic",))
SPLIT = FitMark(
    kind="split", need_bytes=25 * GIB, room_bytes=33 * GIB, machines=("workshop", "attic", "cellar")
)
NOWHERE = FitMark(kind="nowhere", need_bytes=90 * GIB, room_bytes=33 * GIB)
UNKNOWN = FitMark(kind="unknown", need_bytes=0, room_bytes=9 * GIB)


def kept(name: str, /, **changes: Any) -> LibraryModel:
    """A whole model on the disk that nothing uses, but for `changes`."""
    model = LibraryModel(
        key=f"unsloth/{name}/0011223344556677",
        id=name,
        ref=f"unsloth/{name}-GGUF:Q4_K_M",
        quant="Q4_K_M",
        kind="model",
        complete=True,
        comes_with=False,
        bytes_here=2497 * MIB,
        bytes_total=2497 * MIB,
        modified=START,
        loaded=False,
        used_by=(),
        fit=HERE,
    )
    return msgspec.structs.replace(model, **changes)


def library(*models: LibraryModel) -> Library:
    """The disk with those models, or with one in each state."""
    some = models or (
        kept(
            str(SMALL),
            key="default",
            ref="default",
            comes_with=True,
            loaded=True,
            bytes_here=98 * MIB,
            bytes_total=98 * MIB,
        ),
        kept("Qwen3-4B-Instruct-Q4_K_M"),
        kept("gemma-3-12b-it-Q4_K_M", complete=False, bytes_here=1 * GIB, bytes_total=7 * GIB),
        kept("Llama-3.3-70B-layers", kind="layers", complete=False, fit=SPLIT, bytes_here=9 * GIB),
        kept("Phi-4-mini-Q6_K", used_by=(4242,)),
    )
    return Library(folder="~/.cache/meshllm/models", disk_free=88 * GIB, bytes_here=21 * GIB, models=some)


def entry(name: str, gib: float, mark: FitMark, **changes: Any) -> CatalogModel:
    """An entry of the catalogue."""
    model = CatalogModel(
        id=name,
        ref=name,
        repo=f"unsloth/{name}-GGUF",
        quant="Q4_K_M",
        bytes=int(gib * GIB),
        memory_bytes=int(gib * GIB) + GIB,
        parameters=int(gib * 1.7e9),
        licence="Apache-2.0",
        about=f"The model {name}; answers, calls tools, many languages.",
        pick=False,
        here=False,
        fit=mark,
    )
    return msgspec.structs.replace(model, **changes)


def catalog() -> Catalog:
    """One entry with each mark."""
    return Catalog(
        memory_free=10 * GIB,
        machines=3,
        models=(
            entry("qwen3-1.7b", 1.7, HERE),
            entry("qwen3-4b", 2.5, HERE, here=True),
            entry("qwen3-8b", 5.0, HERE, pick=True),
            entry("gemma-3-12b", 7.3, OTHER),
            entry("qwen3-32b", 19.8, SPLIT),
            entry("llama-3.3-70b", 42.5, NOWHERE),
        ),
    )


def found(repo: str = "bartowski/Qwen3-8B-GGUF", /, **changes: Any) -> HubModel:
    """A repository that the hub found."""
    model = HubModel(
        repo=repo,
        downloads=120_345,
        likes=77,
        gated=False,
        parameters=8_200_000_000,
        architecture="qwen3",
        quants=("Q8_0", "Q6_K", "Q4_K_M"),
        quant="Q6_K",
        bytes=6 * GIB,
        fit=HERE,
    )
    return msgspec.structs.replace(model, **changes)


def search() -> HubSearch:
    """What the hub found."""
    return HubSearch(
        hub="https://hub.example",
        models=(
            found(),
            found(
                "vast/Qwen3-235B-GGUF", fit=SPLIT, quant="Q2_K", bytes=80 * GIB, parameters=235_000_000_000
            ),
            found("shy/Qwen3-GGUF", fit=UNKNOWN, parameters=0, bytes=0, gated=True, quant=""),
        ),
    )


def repository() -> HubRepo:
    """The quantizations of a repository."""
    repo = "bartowski/Qwen3-8B-GGUF"
    sizes = (("Q8_0", 8.7, SPLIT), ("Q6_K", 6.7, HERE), ("Q4_K_M", 5.0, HERE))
    return HubRepo(
        repo=repo,
        commit="0" * 40,
        models=tuple(
            HubFile(
                ref=f"{repo}:{quant}",
                name=f"Qwen3-8B-{quant}",
                quant=quant,
                bytes=int(gib * GIB),
                files=1,
                here=False,
                fit=mark,
            )
            for quant, gib, mark in sizes
        ),
    )


def download(name: str = "a1", /, **changes: Any) -> DownloadRow:
    """A download on its way, but for `changes`."""
    row = DownloadRow(
        id=name,
        ref="unsloth/Qwen3-8B-GGUF:Q4_K_M",
        state="downloading",
        since=START,
        model="Qwen3-8B-Q4_K_M",
        bytes_done=2 * GIB,
        bytes_total=5 * GIB,
        bytes_per_second=12.5 * MIB,
    )
    return msgspec.structs.replace(row, **changes)


def changed(row: DownloadRow) -> ev.DownloadChanged:
    """The event that tells of it."""
    return ev.DownloadChanged(at=START, download=row)


def downloading() -> NodeSnapshot:
    """A mesh, with a download in several states."""
    return fold(
        changed(download()),
        changed(
            download(
                "b2",
                ref="unsloth/gemma-3-12b-it-GGUF:Q4_K_M",
                model="",
                state="waiting",
                bytes_done=0,
                bytes_total=0,
            )
        ),
        changed(download("c3", state="paused", model="Phi-4-mini-Q6_K", bytes_per_second=0.0)),
        changed(
            download(
                "d4",
                state="failed",
                model="Mistral-7B-Q4_K_M",
                message="The hub cannot be reached: timed out.",
                hint="Check the network.",
            )
        ),
        snapshot=meshed(),
    )


def replies() -> dict[str, object]:
    """What the node answers to the page's questions."""
    return {
        "library": library(),
        "catalog": catalog(),
        "hub/search": search(),
        "hub/models": repository(),
    }


def client(state: NodeSnapshot | None = None, /, **more: object) -> ScriptedClient:
    """A node that answers all of the page's questions; `more` replaces replies, `_` standing for `/`."""
    answers = replies() | {name.replace("_", "/"): reply for name, reply in more.items()}
    return ScriptedClient(state=state if state is not None else downloading(), replies=answers)

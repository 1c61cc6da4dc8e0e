"""Where the file of a hosted stage comes from: kept from before, from the hub, or from the coordinator."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

from meshllm_core.errors import DownloadFailed
from meshllm_core.models.cache import Cache
from meshllm_core.models.digest import sha256_of
from meshllm_core.models.hub import Hub
from meshllm_core.models.package_fetch import prepare_stage
from meshllm_core.models.package_refs import parse_source
from meshllm_core.models.package_stage import StageMaker
from meshllm_core.models.refs import HubRef
from meshllm_core.paths import Paths

COMMIT_DIGITS = 40


def hub_reference(cache: Cache, file: Path) -> str:
    """Of a model of the cache, with the commit that it is; empty for a file from elsewhere."""
    source = cache.source(file.parent)
    if source is None or not source.revisions:
        return ""
    commit = next(reversed(source.revisions.values()))
    quant = f":{source.quant}" if source.quant else ""
    return f"{source.repo}{quant}@{commit}" if len(commit) == COMMIT_DIGITS else ""


async def from_hub(
    reference: str,
    layers: tuple[int, int],
    sha256: str,
    paths: Paths,
    endpoint: str,
    on_progress: Callable[[int, int], None],
) -> Path:
    """The stage of these layers, only what it needs fetched. Raises ModelError, also when it is another file
    than the coordinator's.
    """
    found = parse_source(reference)
    if not isinstance(found, HubRef) or len(found.revision) != COMMIT_DIGITS:
        raise DownloadFailed(f"{reference!r} names no commit at the hub.", hint="The coordinator sends it.")
    stopped = threading.Event()
    loop = asyncio.get_running_loop()

    def progressed(done: int, total: int) -> None:
        loop.call_soon_threadsafe(on_progress, done, total)

    maker = StageMaker(
        Cache(paths.models),
        Hub(endpoint=endpoint or None),
        on_progress=progressed,
        cancelled=stopped.is_set,
    )

    def prepare() -> Path:
        file = prepare_stage(reference, *layers, maker).file
        if sha256_of(file) != sha256:
            raise DownloadFailed(
                f"Layers {layers[0]} to {layers[1] - 1} of {reference} are not the coordinator's.",
                hint="Its file is another one, or another version of meshllm wrote it.",
            )
        return file

    try:
        return await asyncio.to_thread(prepare)
    except asyncio.CancelledError:
        stopped.set()
        raise

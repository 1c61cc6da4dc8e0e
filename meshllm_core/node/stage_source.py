"""Where a hosted stage and its golden probe come from: the cache, the hub, or the coordinator."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from meshllm_core.config import Settings
from meshllm_core.discovery.text import clean_text
from meshllm_core.errors import DownloadFailed, ModelError
from meshllm_core.ids import NodeId
from meshllm_core.models.cache import Cache
from meshllm_core.models.digest import sha256_of
from meshllm_core.models.hub import Hub
from meshllm_core.models.package_fetch import prepare_stage
from meshllm_core.models.package_probes import ProbeFile
from meshllm_core.models.package_refs import parse_source
from meshllm_core.models.package_stage import PreparedStage, StageMaker
from meshllm_core.models.refs import HubRef
from meshllm_core.models.resolve import free_disk
from meshllm_core.models.stage_room import make_room
from meshllm_core.models.stage_source import local_files
from meshllm_core.models.stage_store import received_path, record_received
from meshllm_core.paths import Paths
from meshllm_core.serve.stage_calls import Offer
from meshllm_core.transport.link import Channel
from meshllm_core.transport.transfer import fetch_file

log = logging.getLogger(__name__)

COMMIT_DIGITS = 40


def hub_reference(cache: Cache, file: Path) -> str:
    """Of a model of the cache, with the commit that it is; empty for a file from elsewhere."""
    source = cache.source(file.parent)
    if source is None or not source.revisions:
        return ""
    commit = next(reversed(source.revisions.values()))
    quant = f":{source.quant}" if source.quant else ""
    return f"{source.repo}{quant}@{commit}" if len(commit) == COMMIT_DIGITS else ""


@dataclass(frozen=True)
class StageFetch:
    """Gets one offered stage."""

    offer: Offer
    settings: Settings
    paths: Paths
    coordinator: NodeId
    coordinator_name: str
    open_transfer: Callable[[NodeId], Awaitable[Channel]]
    on_progress: Callable[[int, int], None]

    @property
    def _layers(self) -> str:
        return f"layers {self.offer.start} to {self.offer.end - 1}"

    async def stage(self) -> PreparedStage | Path:
        """From the hub, with all that came along; or the file alone, as the coordinator has it.

        Raises ModelError, LinkClosed, PeerUnreachable.
        """
        offer, wanted = self.offer, self.settings.stage_source
        here: bool = await asyncio.to_thread(self._is_here)
        if here:
            return self._target
        if offer.source and wanted != "peer":
            try:
                return await self._from_hub()
            except ModelError as error:
                if wanted == "hub" or not offer.file_sha256:
                    raise
                log.info("%s sends what the hub does not: %s", self.coordinator_name, error)
        elif wanted == "hub":
            raise DownloadFailed(
                f"{self.coordinator_name} has the model from no hub; this node takes stages only from there.",
                hint="Set stage_source to auto there.",
            )
        return await self._from_coordinator()

    async def probes(self, stage: PreparedStage | Path, folder: Path) -> Path | None:
        """The golden probe of the stage, fetched into `folder` if it did not come along; None when there is
        none. Raises what `stage` raises."""
        ends = {self.offer.start, self.offer.end} - {0}
        if isinstance(stage, PreparedStage) and stage.probes is not None:
            (file,) = local_files(stage.probes)
            if ends <= set(ProbeFile(file).boundaries):
                return stage.probes
        if not self.offer.probes_sha256 or self.settings.stage_source == "hub":
            return None
        channel = await self.open_transfer(self.coordinator)
        target = folder / "probes.safetensors"
        await fetch_file(
            channel,
            self.offer.probes_sha256,
            target,
            sha256=self.offer.probes_sha256,
            largest=self.offer.probes_size,
        )
        return target

    def _is_here(self) -> bool:
        """Whether the coordinator sent it at another time."""
        known = bool(self.offer.file_sha256)
        return known and self._target.is_file() and self._target.stat().st_size == self.offer.file_size

    @property
    def _target(self) -> Path:
        layers = self.offer.start, self.offer.end
        return received_path(Cache(self.paths.models), self.offer.file_sha256, layers)

    def _make_room(self) -> None:
        offer, target = self.offer, self._target
        cache = Cache(self.paths.models)
        make_room(cache, target, offer.file_size, f"The stage with {self._layers}", free_disk)
        record_received(
            cache,
            target,
            offer.file_sha256,
            offer.file_size,
            model=clean_text(offer.model, 128),
            sender=clean_text(self.coordinator_name, 64),
        )

    async def _from_coordinator(self) -> Path:
        offer = self.offer
        if not offer.file_sha256:
            raise DownloadFailed(
                f"{self.coordinator_name} has not {self._layers} of {offer.source}, and this node takes "
                "stages from no hub.",
                hint="Set stage_source to auto there.",
            )
        target = self._target
        await asyncio.to_thread(self._make_room)
        with Cache(self.paths.models).in_use((target,)):
            channel = await self.open_transfer(self.coordinator)
            await fetch_file(
                channel,
                offer.file_sha256,
                target,
                sha256=offer.file_sha256,
                largest=offer.file_size,
                progress=self.on_progress,
            )
        return target

    async def _from_hub(self) -> PreparedStage:
        """Only what the layers need is fetched. Raises ModelError, also for another file or another package
        than the coordinator's.
        """
        found = parse_source(self.offer.source)
        if not isinstance(found, HubRef) or len(found.revision) != COMMIT_DIGITS:
            raise DownloadFailed(
                f"{self.offer.source!r} names no commit at the hub.", hint="The coordinator sends it."
            )
        stopped = threading.Event()
        loop = asyncio.get_running_loop()

        def came(done: int, total: int) -> None:
            loop.call_soon_threadsafe(self.on_progress, done, total)

        maker = StageMaker(
            Cache(self.paths.models),
            Hub(endpoint=self.settings.hub_endpoint or None),
            on_progress=came,
            cancelled=stopped.is_set,
        )
        try:
            return await asyncio.to_thread(self._prepared, maker)
        except asyncio.CancelledError:
            stopped.set()
            raise

    def _prepared(self, maker: StageMaker) -> PreparedStage:
        offer = self.offer
        stage = prepare_stage(offer.source, offer.start, offer.end, maker)
        # What a stage is follows from its fragments, and which those are from the manifest.
        same = (
            stage.identity == offer.package
            if offer.package
            else bool(offer.file_sha256) and sha256_of(stage.file) == offer.file_sha256
        )
        if not same:
            raise DownloadFailed(
                f"{self._layers.capitalize()} of {offer.source} are not the coordinator's.",
                hint="Its file is another one, or another version of meshllm wrote it.",
            )
        return stage

"""The files of one run of a split model on its coordinator: its own stage, those it lends, golden probes."""

import asyncio
import contextlib
import hashlib
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from meshllm_core.ids import NodeId
from meshllm_core.models.digest import sha256_of
from meshllm_core.models.package_probes import excerpt
from meshllm_core.models.package_stage import StageMaker
from meshllm_core.node.split_model import DivisibleModel
from meshllm_core.node.stage_desk import StageDesk

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class Lent:
    """What another machine may fetch here; without a hash there is nothing."""

    sha256: str = ""
    size: int = 0


@dataclass
class StageFiles:
    """Files are kept from `models prune`, and can be fetched by those they are for, until `close`."""

    model: DivisibleModel
    maker: StageMaker
    desk: StageDesk
    _marks: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _offered: list[str] = field(default_factory=list)

    async def stage(self, start: int, end: int, on_progress: OnProgress) -> Path:
        """The file of these layers, here; `on_progress` gets bytes that come from the hub.

        Raises ModelError.
        """
        stopped = threading.Event()
        loop = asyncio.get_running_loop()

        def came(done: int, total: int) -> None:
            loop.call_soon_threadsafe(on_progress, done, total)

        maker = replace(self.maker, on_progress=came, cancelled=stopped.is_set)
        try:
            prepared = await asyncio.to_thread(self.model.prepare, start, end, maker)
        except asyncio.CancelledError:
            stopped.set()
            raise
        self._marks.enter_context(self.maker.cache.in_use((prepared.file,)))
        return prepared.file

    async def lend(self, file: Path, node: NodeId) -> Lent:
        """Lets `node` fetch a file under its hash."""
        digest, size = await asyncio.to_thread(lambda: (sha256_of(file), file.stat().st_size))
        self.desk.files.setdefault(digest, (file, set()))[1].add(node)
        self._offered.append(digest)
        return Lent(digest, size)

    def proves(self, start: int, end: int) -> bool:
        """Whether there is a golden probe of these layers."""
        probes = self.model.probes
        return probes is not None and ({start, end} - {0}) <= set(probes.boundaries)

    async def probe(self, start: int, end: int) -> Path | None:
        """A file with the golden probe of these layers alone; None where there is none.

        Raises ModelFileInvalid, StorageError.
        """
        probes = self.model.probes
        if probes is None or not self.proves(start, end):
            return None
        boundaries = [boundary for boundary in (start, end) if boundary]

        def write() -> Path:
            data = excerpt(probes, boundaries)
            folder = self._marks.enter_context(tempfile.TemporaryDirectory(prefix="meshllm-probes-"))
            path = Path(folder) / f"{hashlib.sha256(data).hexdigest()}.safetensors"
            path.write_bytes(data)
            return path

        return await asyncio.to_thread(write)

    def close(self) -> None:
        """Nobody needs them any more."""
        for digest in self._offered:
            self.desk.files.pop(digest, None)
        self._marks.close()

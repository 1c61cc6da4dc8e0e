"""Learns how fast this machine computes: a calibration once, then what answers show. In the background."""

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import psutil

from meshllm_core.config import Settings
from meshllm_core.engine.pace_protocol import PaceFound, PaceJob, found_decoder
from meshllm_core.engine.supervisor import ENVIRONMENT
from meshllm_core.errors import EngineError, MeshError, describe
from meshllm_core.models.hardware import Hardware
from meshllm_core.models.memory import read_memory, usable_cores
from meshllm_core.node.pace_file import Conditions, KeptPace, engine_version, keep_pace, kept_pace
from meshllm_core.paths import Paths
from meshllm_core.state import events as ev
from meshllm_core.state.pace import observed
from meshllm_core.state.pace_events import UNKNOWN, Pace
from meshllm_core.state.snapshot import NodeSnapshot

log = logging.getLogger(__name__)

LIMIT_SECONDS = 30.0
"""So long the process may take by the clock: with the lowest priority, it may have to wait for others."""
MEMORY_NEEDED = 1 << 30
"""Bytes that must be free: the process takes a quarter of that, and nothing may be swapped out for it."""
ANSWER_LIMIT = 1 << 12
QUIET_SECONDS = 1.0
"""So often it looks whether nothing loads and nobody is answered."""
TRIES = 3
"""A calibration that fails is tried again so often: a machine may be busy when it starts."""
WATCH_SECONDS = 60.0
"""So often it tries, and so often what answers show is kept, where …"""
NEWS = 0.1
"""… it differs by this share."""


def conditions_of(settings: Settings, hardware: Hardware) -> Conditions:
    """What a measurement of this machine holds for, as it computes with these settings."""
    named = [device for device in hardware.devices if device.name.lower() == settings.device.lower()]
    if settings.device.lower() == "auto":
        named = [device for device in hardware.devices if device.kind != "cpu"]
    found = named[0] if named and named[0].kind != "cpu" else None
    return Conditions(
        kind=found.kind if found else "cpu",
        device=((found.description or found.name) if found else hardware.cpu)[:256],
        engine=engine_version(),
        threads=settings.threads or usable_cores(),
    )


@dataclass(frozen=True)
class PaceKeeper:
    """Runs beside the node until it is cancelled."""

    settings: Settings
    paths: Paths
    append: Callable[[ev.AnyEvent], None]
    snapshot: Callable[[], NodeSnapshot]

    async def run(self, hardware: Hardware) -> None:
        """Tells what is kept, or calibrates once nothing else happens; then keeps what answers show."""
        conditions = conditions_of(self.settings, hardware)
        kept = await asyncio.to_thread(kept_pace, self.paths, conditions) or UNKNOWN
        if kept.source:
            self._tell(kept)
        tries = TRIES if self.settings.calibrate else 0
        while True:
            wanted = tries > 0 and not kept.source
            if wanted and _idle(self.snapshot()):
                wanted = False
                if _fit():
                    tries -= 1
                    kept = await self._calibrated(conditions)
            kept = await self._refined(conditions, kept)
            await asyncio.sleep(QUIET_SECONDS if wanted else WATCH_SECONDS)

    async def _calibrated(self, conditions: Conditions) -> Pace:
        folder = self.paths.stages
        try:
            folder.mkdir(parents=True, exist_ok=True)
            job = PaceJob(folder=str(folder), device=self.settings.device, threads=conditions.threads)
            found = await calibrate(job)
        except (MeshError, OSError) as error:
            log.warning("this machine's speed is not calibrated: %s", error)
            return UNKNOWN
        pace = Pace(decode=found.decode, prefill=found.prefill, source="calibrated")
        await self._keep(conditions, pace)
        self._tell(pace)
        return pace

    async def _refined(self, conditions: Conditions, kept: Pace) -> Pace:
        """What answers show, where that is news; else what was kept."""
        seen = observed(self.snapshot())
        fresh = msgspec.structs.replace(seen, prefill=seen.prefill or kept.prefill)
        if not seen.decode or (kept.source == "measured" and not _differ(fresh, kept)):
            return kept
        await self._keep(conditions, fresh)
        self._tell(fresh)
        return fresh

    async def _keep(self, conditions: Conditions, pace: Pace) -> None:
        kept = KeptPace(conditions=conditions, pace=pace, at=time.time())
        try:
            await asyncio.to_thread(keep_pace, self.paths, kept)
        except MeshError as error:
            log.warning("%s", describe(error))

    def _tell(self, pace: Pace) -> None:
        self.append(ev.PaceLearned(at=time.time(), pace=pace))


async def calibrate(job: PaceJob) -> PaceFound:
    """Measures in a process of its own, which ends with this call. Raises EngineError."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "meshllm_core.engine.pace",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**ENVIRONMENT, **os.environ},
    )
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            answer, _ = await process.communicate(msgspec.json.encode(job))
    except TimeoutError:
        raise EngineError(f"The calibration did not end within {LIMIT_SECONDS:g} s.") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode or len(answer) > ANSWER_LIMIT:
        raise EngineError(f"The calibration ended with code {process.returncode}.")
    try:
        return found_decoder.decode(answer)
    except (msgspec.DecodeError, RecursionError) as error:
        raise EngineError(f"The calibration answered something else: {error}.") from error


def _idle(snapshot: NodeSnapshot) -> bool:
    """Whether nothing here computes, or is about to."""
    settled = all(model.status in ("ready", "failed") for model in snapshot.models)
    answered = all(request.status != "running" for request in snapshot.requests)
    hosted = all(stage.state in ("ready", "failed", "withdrawn") for stage in snapshot.hosted_stages)
    return settled and answered and hosted


def _fit() -> bool:
    """Whether this is a moment to measure: with memory to spare, and not on a battery."""
    if read_memory().available < MEMORY_NEEDED:
        return False
    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    return battery is None or battery.power_plugged is not False


def _differ(one: Pace, other: Pace) -> bool:
    pairs = ((one.decode, other.decode), (one.prefill, other.prefill))
    return any(abs(fresh - kept) > NEWS * kept for fresh, kept in pairs)

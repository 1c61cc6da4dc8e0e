"""What the process that measures this machine's speed is told, and answers. Light to import."""

import msgspec

SECONDS = 3.0
"""Of each thread's work, at most; what was measured by then counts."""


class PaceJob(msgspec.Struct, frozen=True, kw_only=True):
    """One calibration."""

    folder: str
    """Where the model of random weights may lie while it is used."""
    device: str
    """auto, cpu, or a name from the device list."""
    threads: int


class PaceFound(msgspec.Struct, frozen=True, kw_only=True):
    """Its result."""

    decode: int
    """Bytes of weights that a decode goes through in a second."""
    prefill: int
    """Bytes of weights times tokens of a prompt, in a second; 0: there was no time to measure it."""
    seconds: float
    """How long it took by the clock, its imports left out."""


job_decoder = msgspec.json.Decoder(PaceJob)
found_decoder = msgspec.json.Decoder(PaceFound)

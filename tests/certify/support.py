"""Certificates and figures for tests."""

import msgspec

from meshllm_core.certify.record import CodecCertificate, Conditions
from meshllm_core.certify.verdict import Figures
from meshllm_core.wire.codecs import Dtype

SHA = bytes(range(32))

EXACT = Figures(
    positions=2400, agreed=2360, mean_kl=3e-3, max_kl=0.2, floor_seeds=3, floor_agreed=2365.0,
    floor_mean_kl=2e-3, shortfall=0.4,
)  # fmt: skip
VALIDATED = msgspec.structs.replace(EXACT, mean_kl=9e-4, floor_mean_kl=4e-7)
REJECTED = msgspec.structs.replace(EXACT, mean_kl=5e-2, shortfall=9.0)
UNTESTED = msgspec.structs.replace(EXACT, positions=1999, agreed=1990, floor_agreed=1990.0)

CONDITIONS = Conditions(
    meshllm="0.1.0", llama_cpp="0.3.36", device="cpu", threads=2, kv_type="f16", flash_attention="auto",
    prompts=SHA, answer_tokens=64, noise=1e-5, seeds=(1, 2, 3),
)  # fmt: skip


def certificate(
    figures: Figures = EXACT,
    *,
    artifact: bytes = SHA,
    cuts: tuple[int, ...] = (15,),
    codec: Dtype = Dtype.Q8X,
    backend: str = "cpu",
    at: float = 1000.0,
) -> CodecCertificate:
    return CodecCertificate(artifact, cuts, codec, backend, figures, CONDITIONS, at)

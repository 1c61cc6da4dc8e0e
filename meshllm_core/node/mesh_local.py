"""What this node says of itself to the mesh, read from its snapshot."""

from hashlib import blake2s

from meshllm_core.mesh.announce import Local
from meshllm_core.state.pace import decode_rate, pace_of
from meshllm_core.state.snapshot import ModelView, NodeSnapshot
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import PAUSED, DeviceOffer, ModelOffer


def local_of(
    snapshot: NodeSnapshot, *, serves: bool, memory_lent: int, claims: tuple[bytes, ...] = ()
) -> Local:
    """Memory, accelerators and, of a host that lends, the models that answer or soon will.

    `claims`: hashes of its certificates of codecs; a client gives files to nobody, so it names none.
    """
    claims = claims if serves else ()
    serves = serves and not snapshot.lending_paused
    devices = tuple(
        DeviceOffer(
            name=(device.description or device.name)[: limits.NAME],
            kind=device.kind[: limits.VERSION],
            memory_total=device.memory_total,
            memory_free=device.memory_free,
        )
        for device in snapshot.devices
        if device.kind != "cpu"
    )
    offers = tuple(
        _offer(snapshot, view)
        for view in snapshot.models
        if serves and view.status in ("loading", "ready", "restarting", "downloading")
    )
    return Local(
        memory_total=snapshot.memory_total,
        memory_free=snapshot.memory_free,
        devices=devices,
        models=offers,
        memory_lent=memory_lent if serves else 0,
        pace=pace_of(snapshot),
        capabilities=(PAUSED,) if snapshot.lending_paused else (),
        codec_certificates=claims,
    )


def _offer(snapshot: NodeSnapshot, view: ModelView) -> ModelOffer:
    # A process that was started anew has another id, a model that was asked for anew another time.
    load = blake2s(f"{view.id} {view.pid} {view.requested_at}".encode(), digest_size=8).digest()
    return ModelOffer(
        name=view.id[: limits.MODEL_NAME],
        load=load,
        status="ready" if view.status == "ready" else "loading",
        architecture=view.architecture[: limits.VERSION],
        parameters=view.parameters,
        context=view.context,
        lanes=min(view.lanes, 4096),
        chat=view.chat,
        embeddings=view.embeddings,
        decode_tokens_per_second=decode_rate(snapshot, view),
        prompt_tokens_per_second=view.prompt_tokens_per_second,
        active=min(view.active, 65_535),
        queued=min(view.queued, 65_535),
    )

"""Certificates of codecs that travel with a package: a file beside the manifest, which does not name it.

Readers that do not know it do not see it. Each certificate is signed by whoever measured it; that it is here
says nothing about whether its signer is to be believed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from meshllm_core.certify.record import Certified, artifact_digest, open_certificate
from meshllm_core.errors import MeshError, ModelFileInvalid
from meshllm_core.models.package_manifest import Manifest
from meshllm_core.models.storage import storing
from meshllm_core.wire import limits

CERTIFICATES_NAME = "codec-certificates.msgpack"
MOST = 512
"""Certificates of one package."""
MAX_BYTES = 2 << 20
_HINT = "Remove the file: a package is whole without it."


class _File(msgspec.Struct, frozen=True, kw_only=True):
    format: str
    certificates: Annotated[
        tuple[Annotated[bytes, msgspec.Meta(max_length=limits.RECORD)], ...], msgspec.Meta(max_length=MOST)
    ]


_FORMAT = "meshllm-codec-certificates-1"


def artifact_of(manifest: Manifest) -> bytes:
    """What names the packaged model: the hash of its file, or of its files' hashes."""
    source = manifest.source_model
    hashes = [file.sha256 for file in source.files] or [source.sha256]
    try:
        return artifact_digest([bytes.fromhex(digest) for digest in hashes])
    except ValueError:
        raise ModelFileInvalid(
            f"The package {manifest.model_id} names a file's hash that is none.", hint="Build it anew."
        ) from None


def encode_certificates(raws: Sequence[bytes]) -> bytes:
    """The file's bytes; the first MOST of them, as far as they fit."""
    taken, size = [], 0
    for raw in raws[:MOST]:
        size += len(raw) + 8
        if size > MAX_BYTES - 256:
            break
        taken.append(raw)
    return msgspec.msgpack.encode(_File(format=_FORMAT, certificates=tuple(taken)))


def read_certificates(folder: Path, manifest: Manifest) -> tuple[tuple[bytes, Certified], ...]:
    """Those beside a manifest in `folder`, as they were signed and read; none where there is no file.

    Raises ModelFileInvalid when it is damaged, a signature does not hold, or one is of another model.
    """
    path = folder / CERTIFICATES_NAME
    if not path.is_file() or path.is_symlink():
        return ()
    with storing(folder), path.open("rb") as stream:
        return parse_certificates(stream.read(MAX_BYTES + 1), manifest)


def parse_certificates(data: bytes, manifest: Manifest) -> tuple[tuple[bytes, Certified], ...]:
    """The file's content, as `read_certificates` gives it. Raises ModelFileInvalid."""
    try:
        if len(data) > MAX_BYTES:
            raise _invalid(f"it is longer than {MAX_BYTES} bytes")
        file = msgspec.msgpack.decode(data, type=_File)
        if file.format != _FORMAT:
            raise _invalid("it has another format")
        found = tuple((raw, open_certificate(raw)) for raw in file.certificates)
    except ModelFileInvalid:
        raise
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, MeshError) as error:
        raise _invalid(str(error)) from error
    if any(record.certificate.artifact != artifact_of(manifest) for _, record in found):
        raise _invalid("it holds one of another model")
    return found


def _invalid(what: str) -> ModelFileInvalid:
    return ModelFileInvalid(f"{CERTIFICATES_NAME} cannot be used: {what.rstrip('.')}.", hint=_HINT)

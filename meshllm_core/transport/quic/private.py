"""All that is used of aioquic and is not its public interface. `tests/transport/test_private.py` watches it.

aioquic has no public way to ask a client for its certificate, to see a peer's certificate, to hold back
a stream's window, or to see what of a stream is not acknowledged.
"""

import ssl

from aioquic import tls
from aioquic._buffer import Buffer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection, QuicConnectionState
from aioquic.quic.events import ConnectionTerminated
from aioquic.quic.packet import QuicHeader, QuicProtocolVersion, pull_quic_header
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.quic.recovery import QuicPacketSpace
from aioquic.quic.stream import QuicStream
from cryptography.x509 import load_der_x509_certificate

from meshllm_core.errors import ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import NodeId, short
from meshllm_core.transport.certificate import certificate_key
from meshllm_core.transport.quic import windows

ALPN = "meshllm/1"
IDLE_SECONDS = 15.0
"""A link without a single packet for so long is closed."""
DATAGRAM_BYTES = 1200
"""Fits any path, a relay's envelope included; aioquic does not look for a larger one."""


def header_of(data: bytes, id_bytes: int) -> QuicHeader:
    """The header of the first packet in a datagram. Raises ValueError."""
    return pull_quic_header(Buffer(data=data), host_cid_length=id_bytes)


class NoCertificate(tls.Alert):
    """The client sent an empty certificate message."""

    description = tls.AlertDescription.certificate_required


def configuration(key: SigningKey, certificate: bytes, *, is_client: bool) -> QuicConfiguration:
    """Both sides show a certificate. What it proves is checked in `MeshConnection`, not by authorities."""
    return QuicConfiguration(
        is_client=is_client,
        alpn_protocols=[ALPN],
        verify_mode=ssl.CERT_NONE,
        certificate=load_der_x509_certificate(certificate),
        private_key=key.private,
        idle_timeout=IDLE_SECONDS,
        max_data=windows.LINK_UNREAD_STRANGER,
        max_stream_data=windows.UNREAD_STRANGER,
        max_datagram_size=DATAGRAM_BYTES,
        supported_versions=[QuicProtocolVersion.VERSION_1],
    )


class MeshConnection(QuicConnection):
    """A QUIC connection whose two ends prove their node keys, with windows that follow the reader."""

    def __init__(
        self,
        config: QuicConfiguration,
        *,
        expected: NodeId | None = None,
        original: bytes | None = None,
        retried: bytes | None = None,
    ) -> None:
        """`expected` is the node that is dialled; None takes whoever comes.

        For the side that listens: `original` is the connection id that the peer chose for this side, and
        `retried` the one that it was given when it had to prove its address.
        """
        self.expected = expected
        self.certificate = b""
        """What the peer showed (DER); means nothing before the event HandshakeCompleted."""
        self.peer = NodeId(b"")
        """The key in it; likewise."""
        self.refusal = ""
        """Why this side refused the peer's proof; empty when it did not."""
        self.closed_here = False
        """Whether it was this side that ended the connection."""
        self.stream_window = windows.UNREAD_STRANGER
        self.link_window = windows.LINK_UNREAD_STRANGER
        self._taken: dict[int, int] = {}
        self._handshake_bytes = 0
        super().__init__(
            configuration=config,
            original_destination_connection_id=original,
            retry_source_connection_id=retried,
        )
        # Nobody has a use for streams in one direction.
        self._local_max_streams_uni.value = self._local_max_streams_uni.sent = 0

    def _initialize(self, peer_cid: bytes) -> None:
        super()._initialize(peer_cid)
        context = self.tls
        set_certificate = context._set_peer_certificate
        expect_finished = context._server_expect_finished
        handle_message = context.handle_message

        def check_certificate(message: tls.Certificate) -> None:
            set_certificate(message)
            self._look_at(message.certificates[0][0])

        def need_certificate() -> None:
            if not self.certificate:
                self.refusal = "no certificate"
                raise NoCertificate("a certificate is required")
            expect_finished()

        def count_bytes(data: bytes, output: dict[tls.Epoch, Buffer]) -> None:
            self._handshake_bytes += len(data)
            if self._handshake_bytes > windows.HANDSHAKE_BYTES:
                self.refusal = "too large"
                raise tls.AlertDecodeError("the handshake is too long")
            handle_message(data, output)

        # In the instance, where they come before the methods of the class.
        vars(context).update(_set_peer_certificate=check_certificate, handle_message=count_bytes)
        if not self._is_client:
            context._request_client_certificate = True
            # aioquic takes an empty certificate message for an answer.
            vars(context).update(_server_expect_finished=need_certificate)

    def _look_at(self, certificate: bytes) -> None:
        """Runs before CertificateVerify: refuses what is certainly wrong, trusts nothing yet."""
        try:
            peer = certificate_key(certificate)
        except ProofInvalid as error:
            self.refusal = "malformed"
            raise tls.AlertBadCertificate(error.message) from None
        if self.expected is not None and peer != self.expected:
            self.refusal = "wrong key"
            raise tls.AlertBadCertificate(f"this is {short(peer)}, not {short(self.expected)}")
        self.certificate, self.peer = certificate, peer

    def close(self, error_code: int = 0, frame_type: int | None = None, reason_phrase: str = "") -> None:
        """See aioquic. It calls this itself when the peer breaks the protocol."""
        self.closed_here = self.closed_here or self._close_event is None
        super().close(error_code, frame_type, reason_phrase)

    @property
    def started(self) -> bool:
        """Whether any packet of the peer could be decrypted."""
        return self._state is not QuicConnectionState.FIRSTFLIGHT

    @property
    def ending(self) -> ConnectionTerminated | None:
        """How the connection ends, as soon as that is known; the event waits for the closing period."""
        return self._close_event

    @property
    def round_trip(self) -> float:
        """Smoothed, in seconds; 0 when nothing was measured yet."""
        return self._loss._rtt_smoothed

    def backlog(self, stream_id: int) -> int:
        """Bytes written to a stream that the peer did not acknowledge."""
        stream = self._streams.get(stream_id)
        return len(stream.sender._buffer) if stream else 0

    def follow(self, stream_id: int) -> None:
        """A reader is there: from now on the stream's window moves with what it takes."""
        self._taken.setdefault(stream_id, 0)

    def take(self, stream_id: int, count: int) -> bool:
        """The reader took `count` bytes. Returns whether the peer should hear that there is room again."""
        taken = self._taken[stream_id] = self._taken.get(stream_id, 0) + count
        stream = self._streams.get(stream_id)
        return stream is not None and self._due(stream, taken)

    def widen(self) -> None:
        """The peer is a member: it gets the windows of one."""
        self.stream_window = windows.UNREAD
        self.link_window = windows.LINK_UNREAD

    def give_up(self, stream_id: int, code: int) -> None:
        """Ends a stream in both directions, whatever state it is in."""
        self._taken.pop(stream_id, None)
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        stream.sender.reset(code)
        if not stream.receiver.is_finished:
            stream.receiver.stop(code)

    def forget(self, stream_id: int) -> None:
        """A stream that is finished in both directions."""
        self._taken.pop(stream_id, None)

    def _due(self, stream: QuicStream, taken: int) -> bool:
        room = taken + self.stream_window - stream.max_stream_data_local
        return room >= self.stream_window // 4 and not stream.receiver.is_finished

    def _write_stream_limits(
        self, builder: QuicPacketBuilder, space: QuicPacketSpace, stream: QuicStream
    ) -> None:
        """aioquic doubles the window of a stream that receives; here it follows what was read."""
        taken = self._taken.get(stream.stream_id) if stream.stream_id is not None else None
        if taken is not None and self._due(stream, taken):
            stream.max_stream_data_local = taken + self.stream_window
        if stream.max_stream_data_local_sent == stream.max_stream_data_local:
            return
        receiver = stream.receiver
        highest, receiver.highest_offset = receiver.highest_offset, 0
        try:
            super()._write_stream_limits(builder, space, stream)
        finally:
            receiver.highest_offset = highest

    def _write_connection_limits(self, builder: QuicPacketBuilder, space: QuicPacketSpace) -> None:
        limit = self._local_max_data
        step = self.link_window // 4
        if limit.used + self.link_window - limit.value >= step:
            value = limit.used - self._unread() + self.link_window
            if value - limit.value >= step:
                limit.value = value
        used, limit.used = limit.used, 0
        try:
            super()._write_connection_limits(builder, space)
        finally:
            limit.used = used

    def _unread(self) -> int:
        """Bytes that were received on all streams and are kept, here or in aioquic."""
        return sum(
            stream.receiver.highest_offset - self._taken.get(number, stream.receiver.starting_offset())
            for number, stream in self._streams.items()
        )

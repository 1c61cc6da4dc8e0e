"""How much of a peer's bytes may wait here unread, and how much of ours may wait to be taken. In bytes."""

from meshllm_core.wire import limits

UNREAD_STRANGER = 256 << 10
"""Of one channel, before the peer is admitted. It is also what a new channel starts with."""
UNREAD = 1 << 20
"""Of one channel of a member: at 100 ms of round trip still more than aioquic can compute."""

LINK_UNREAD_STRANGER = 512 << 10
"""Of all channels of a link together, before the peer is admitted."""
LINK_UNREAD = limits.CHANNELS * UNREAD
"""Of a member: all of its channels may be full, and none of them holds another one up."""

SEND_HIGH = 1 << 20
"""`Channel.send` waits while more than this is not acknowledged by the peer …"""
SEND_LOW = 256 << 10
"""… until it has come down to this."""
PIECE = 256 << 10
"""A frame is handed to QUIC in pieces of this size, so that a long one obeys the watermarks too."""

HANDSHAKE_BYTES = 32 << 10
"""TLS messages of a peer; ours come to about 1,200."""

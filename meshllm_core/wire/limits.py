"""Every size that comes from another node, capped. Bytes unless said otherwise."""

PROTOCOL = 1
"""Version of what nodes speak to each other."""
PROTOCOL_OLDEST = 1
"""Oldest version that this one still speaks."""

STRANGER_FRAME = 8 * 1024
"""A frame from a peer that is not admitted."""
CONTROL_FRAME = 256 * 1024
"""A frame on the control channel of a member."""
CALL_FRAME = 16 * 1024 * 1024
"""A frame of an inference call: a long prompt, a chat template."""

CERTIFICATE = 512
CHAIN_LENGTH = 5
"""Certificates in a chain, the root's own signature included."""
ANNOUNCEMENT = 16 * 1024
"""A signed announcement; larger ones are refused as a whole."""
RECORD = 16 * 1024
"""Any signed record."""

MEMBERS = 4096
"""Members of one mesh that a node keeps."""
RECORDS = 16 * 1024
"""Signed records that a node keeps, of all kinds."""
INVITES = 256
"""Invites that are valid at the same time."""

MODELS = 64
"""Models in one announcement."""
ADDRESSES = 8
"""Addresses in one announcement, token or listing."""
DEVICES = 16
RTTS = 64
"""Round-trip times in one announcement."""
CODEC_CERTIFICATES = 32
"""Measurements of codecs that one announcement names."""
NAME = 64
"""Characters of a node's, a mesh's or a device's name."""
MODEL_NAME = 256
"""Characters of a model's name."""
VERSION = 32
REGION = 32

LINKS = 512
"""Links a node holds at the same time."""
HANDSHAKES = 64
"""Connections that are not admitted yet, at the same time; the oldest goes when one more comes."""
HANDSHAKE_SECONDS = 10.0
"""So long a connection may stay half open."""
CHANNELS = 64
"""Channels that a peer may have open on one link."""
CALLS_PER_PEER = 32
"""Inference calls of one peer that are computed or wait; more are refused with 429."""

STAGE_WIDTH = 1 << 16
"""Values in a row of hidden state."""
STAGE_ROWS = 4096
"""Rows in a stage frame."""
STAGE_SEQUENCES = 4096
"""Sequences that share a chain of stages."""
STAGE_FRAME = 64 * 1024 * 1024
"""A stage frame."""

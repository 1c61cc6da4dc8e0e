"""Links over QUIC between nodes that prove their keys. The only place where aioquic is imported."""

from meshllm_core.transport.quic.side import SideChannels as SideChannels
from meshllm_core.transport.quic.transport import QuicTransport as QuicTransport

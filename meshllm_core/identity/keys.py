"""Ed25519 keys: a node's, a mesh's root and an owner's are all of this kind."""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from meshllm_core.errors import IdentityError
from meshllm_core.ids import NodeId

SEED_BYTES = 32
SIGNATURE_BYTES = 64


class SigningKey:
    """A private key. Its public half, 32 bytes, is the identity that others know."""

    def __init__(self, seed: bytes) -> None:
        """`seed` is the 32-byte private key. Raises IdentityError for any other length."""
        if len(seed) != SEED_BYTES:
            raise IdentityError(
                f"A key has {SEED_BYTES} bytes, this one has {len(seed)}.",
                hint="Make a new one with `meshllm id --new`.",
            )
        self.seed = seed
        self.private = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = NodeId(self.private.public_key().public_bytes_raw())

    @staticmethod
    def generate() -> "SigningKey":
        """A new key."""
        return SigningKey(Ed25519PrivateKey.generate().private_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """64 bytes."""
        return self.private.sign(message)

    def __repr__(self) -> str:
        """Never the private half: keys end up in logs by way of repr."""
        return f"SigningKey({self.public.hex()[:10]}…)"


def verify(public: bytes, signature: bytes, message: bytes) -> bool:
    """Whether `signature` over `message` was made by the private half of `public`."""
    if len(signature) != SIGNATURE_BYTES:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True

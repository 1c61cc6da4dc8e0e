"""Which Nostr relays are asked, unless the configuration names others."""

from collections.abc import Sequence

from meshllm_core.errors import DiscoveryError

DEFAULT_RELAYS = (
    "wss://relay.damus.io",
    "wss://nos.lol",
    "wss://relay.nostr.band",
    "wss://nostr.land",
    "wss://nostr.wine",
)
RELAYS = 16
"""Relays that are used at most."""
_ADDRESS_LIMIT = 200


def check_relays(relays: Sequence[str]) -> tuple[str, ...]:
    """The addresses without what stands twice. Raises DiscoveryError for one that is none, or none at all."""
    chosen = tuple(dict.fromkeys(relay.strip().rstrip("/") for relay in relays))
    if not chosen:
        raise DiscoveryError("No Nostr relay is named.", hint="Name one as wss://host.")
    if len(chosen) > RELAYS:
        raise DiscoveryError(f"{len(chosen)} Nostr relays; at most {RELAYS} are used.", hint="Name fewer.")
    for relay in chosen:
        host = relay.partition("://")[2]
        if (
            not relay.startswith(("wss://", "ws://"))
            or not host
            or len(relay) > _ADDRESS_LIMIT
            or not (relay.isascii() and relay.isprintable())
            or " " in relay
        ):
            raise DiscoveryError(
                f"{relay[:_ADDRESS_LIMIT]!r} is not the address of a Nostr relay.",
                hint="Write it as wss://host, or ws://host:port for one of your own.",
            )
    return chosen

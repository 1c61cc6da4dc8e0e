"""`meshllm discover`: the public meshes that are listed now. Needs no node, joins nothing."""

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from meshllm_core import __version__
from meshllm_core.cli import text
from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.options import AsJson
from meshllm_core.cli.output import emit, emit_json, table
from meshllm_core.config import load_settings
from meshllm_core.errors import ConfigError, DiscoveryError
from meshllm_core.paths import default_paths

if TYPE_CHECKING:
    from meshllm_core.discovery.listing import Listing
    from meshllm_core.discovery.score import Wants
    from meshllm_core.mesh.auto import LeftOut, Seen
    from meshllm_core.transport.nostr import NostrBoard

MODELS_SHOWN = 3
NAME_WIDTH = 32
GB = 1_000_000_000

Model = Annotated[str, typer.Option("--model", metavar="NAME", help="Only meshes that serve this model.")]
MinVram = Annotated[
    float,
    typer.Option("--min-vram", metavar="GB", min=0, help="Only meshes with so much accelerator memory."),
]
Region = Annotated[str, typer.Option("--region", metavar="NAME", help="Only meshes of this region.")]
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="Only meshes of this name.")]
Relays = Annotated[
    list[str] | None,
    typer.Option("--relay", metavar="URL", help="Nostr relay to ask instead of the usual ones; repeatable."),
]
Measure = Annotated[
    bool, typer.Option("--probe", help="Measure how far away each is; shows them your address.")
]


@dataclass(frozen=True)
class _Row:
    listing: "Listing"
    round_trip: float | None = None
    score: float | None = None


@dataclass(frozen=True)
class _Result:
    seen: "Seen"
    rows: "list[_Row]"
    left_out: "list[LeftOut]"


def discover(
    model: Model = "",
    min_vram: MinVram = 0,
    region: Region = "",
    name: Name = "",
    relay: Relays = None,
    probe: Measure = False,
    as_json: AsJson = False,
) -> None:
    """List the public meshes that anybody may join now."""
    from meshllm_core.discovery.score import Wants

    relays = _relays(relay or [])
    wants = Wants(model=model, region=region, min_vram=round(min_vram * GB), name=name, version=__version__)
    say(f"Asking {len(relays)} Nostr relay{'s' if len(relays) > 1 else ''} …")
    result = asyncio.run(_ask(relays, wants, probe))
    if not any(not words for words in result.seen.relays.values()):
        from meshllm_core.mesh.auto import nothing_found

        raise DiscoveryError(
            nothing_found(result.seen), hint="Check the network, or name another relay with --relay."
        )
    if as_json:
        emit_json(_document(result))
    else:
        _show(result, probe)


def _relays(given: Sequence[str]) -> tuple[str, ...]:
    from meshllm_core.discovery.relays import DEFAULT_RELAYS, check_relays

    settings = load_settings(default_paths(), environ=os.environ)
    try:
        return check_relays(given or settings.nostr_relays or DEFAULT_RELAYS)
    except DiscoveryError as error:
        raise ConfigError(error.message, hint=error.hint, param="--relay") from None


async def _ask(relays: Sequence[str], wants: "Wants", probe: bool) -> _Result:
    from meshllm_core.transport.nostr import NostrBoard

    board = NostrBoard(relays)
    try:
        return await (_measured(board, wants) if probe else _listed(board, wants))
    finally:
        await board.close()


async def _listed(board: "NostrBoard", wants: "Wants") -> _Result:
    from meshllm_core.discovery.score import promise
    from meshllm_core.mesh.auto import LeftOut, look

    seen = await look(board)
    rows: list[_Row] = []
    left_out: list[LeftOut] = []
    for listing in sorted(seen.listings, key=lambda listing: -promise(listing, wants)):
        if why := _refusal(listing, wants):
            left_out.append(LeftOut(listing, why))
        else:
            rows.append(_Row(listing))
    return _Result(seen, rows, left_out)


async def _measured(board: "NostrBoard", wants: "Wants") -> _Result:
    from meshllm_core.mesh.auto import LeftOut, find

    async def dial(listing: "Listing") -> float | None:
        return None if _refusal(listing, wants) else await _tcp_round_trip(listing)

    found = await find(board, dial, wants)
    rows = [_Row(scored.listing, scored.round_trip, scored.score) for scored in found.ranked]
    left_out = [LeftOut(out.listing, _refusal(out.listing, wants) or out.why) for out in found.left_out]
    return _Result(found.seen, rows, left_out)


def _refusal(listing: "Listing", wants: "Wants") -> str:
    from meshllm_core.discovery.score import refusal

    if wants.region and listing.region.casefold() != wants.region.casefold():
        return f"its region is {listing.region or 'not said'}"
    return refusal(listing, wants)


async def _tcp_round_trip(listing: "Listing") -> float | None:
    """Seconds until the first of its addresses takes a TCP connection; None: none does."""

    async def connect(host: str, port: int) -> float:
        begun = time.perf_counter()
        _, writer = await asyncio.open_connection(host, port)
        taken = time.perf_counter() - begun
        writer.close()
        return taken

    tasks = [asyncio.create_task(connect(address.host, address.port)) for address in listing.dial_addresses()]
    try:
        for earliest in asyncio.as_completed(tasks):
            try:
                return await earliest
            except OSError:
                continue
        return None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _document(result: _Result) -> dict[str, Any]:
    return {
        "relays": result.seen.relays,
        "refused": result.seen.refused,
        "meshes": [
            msgspec.to_builtins(row.listing)
            | {
                "free_slots": row.listing.free_slots,
                "round_trip_ms": None if row.round_trip is None else round(row.round_trip * 1000, 1),
                "score": row.score,
            }
            for row in result.rows
        ],
        "left_out": [
            {"mesh": out.listing.mesh, "node": out.listing.node, "name": out.listing.name, "why": out.why}
            for out in result.left_out
        ],
    }


def _show(result: _Result, probed: bool) -> None:
    from meshllm_core.mesh.auto import nothing_found

    if result.rows:
        emit(_table(result.rows, probed))
        say("Join the best of them with `meshllm serve --auto`, or with `meshllm client --auto` to only ask.")
        say("A public mesh is for prompts you would post: whoever computes an answer can read it.")
    elif not result.left_out:
        emit(nothing_found(result.seen))
    else:
        emit("No public mesh that is listed now fits.")
    for out in result.left_out:
        say(f"left out: {_name(out.listing)}: {out.why}")
    for relay, words in result.seen.relays.items():
        if words:
            say(f"not asked: {relay}: {words}")
    if result.rows and result.seen.refused:
        counts = ", ".join(f"{count} {reason}" for reason, count in sorted(result.seen.refused.items()))
        say(f"Listings that are not valid were ignored: {counts}.")


def _table(rows: Sequence[_Row], probed: bool) -> str:
    heads = ["name", "region", "models", "members", "free", "memory", "version"]
    right = [3, 4, 5]
    if probed:
        heads.append("distance")
        right.append(7)
    lines = []
    for row in rows:
        listing = row.listing
        line = [
            _name(listing),
            listing.region or "–",
            _models(listing.models),
            str(listing.members),
            "any" if listing.free_slots is None else str(listing.free_slots),
            text.size(listing.vram_total),
            listing.version,
        ]
        if probed:
            line.append("–" if row.round_trip is None else f"{row.round_trip * 1000:.0f} ms")
        lines.append(line)
    return table(heads, lines, right=right)


def _name(listing: "Listing") -> str:
    name = listing.name or listing.mesh[:10]
    return name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 1] + "…"


def _models(names: Sequence[str]) -> str:
    shown = [
        name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 1] + "…" for name in names[:MODELS_SHOWN]
    ]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" +{more}" if more else "") if shown else "–"

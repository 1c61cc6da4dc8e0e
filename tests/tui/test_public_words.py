"""What the public switch says becomes visible is what a listing holds, and no less."""

import msgspec

from meshllm_core.discovery.listing import Listing
from meshllm_tui.present import plain
from meshllm_tui.public_words import listing_lines
from tests.tui.mesh_samples import meshed, model, peer

SAID = {
    "mesh": "its id",
    "node": "id c0ffee12…",
    "addresses": "192.168.1.20:9440, [fd00::20]:9440",
    "name": "Name, region",
    "region": "Name, region",
    "members": "3 machines that compute",
    "models": "SmolLM2-135M-Instruct, Qwen3-4B-Instruct:Q4_K_M",
    "vram_free": "their memory in all, 11.0 of 12.0 GiB free here",
    "vram_total": "their memory in all, 11.0 of 12.0 GiB free here",
    "version": "meshllm 0.1.0",
}
"""The words for each field."""
PLAIN = {"schema", "protocol", "oldest", "admission", "issued_at", "expires_at", "clients", "max_clients"}
"""Of the format, and that clients are let in: in the sentence on joining, and in the box below it."""


def test_every_field_of_a_listing_is_named() -> None:
    assert set(SAID) | PLAIN == set(Listing.__struct_fields__)
    words = plain(listing_lines(meshed(peer("attic"), peer("cellar"), peer("phone", role="client"))))
    for each in SAID.values():
        assert each in words, each
    assert "attic" not in words


def test_every_model_is_named_and_of_very_many_their_number_is_told() -> None:
    few = tuple(model(f"a-model-with-a-long-name-{number}") for number in range(9))
    words = plain(listing_lines(meshed(peer("attic", models=few))))
    assert all(each.id in words for each in few)
    many = tuple(model(f"model-{number}") for number in range(40))
    assert "and 25 more" in plain(listing_lines(meshed(peer("attic", models=many))))


def test_a_node_that_has_nothing_to_list_says_so() -> None:
    snapshot = msgspec.structs.replace(meshed(), models=(), peers=(), devices=())
    assert snapshot.mesh is not None
    bare = msgspec.structs.replace(snapshot, mesh=msgspec.structs.replace(snapshot.mesh, addresses=()))
    words = plain(listing_lines(bare))
    assert "no address: it cannot be listed" in words
    assert "none is ready now" in words
    assert "1 machine that computes" in words

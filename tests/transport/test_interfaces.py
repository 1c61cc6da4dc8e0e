"""Which addresses a machine tells others: laid out machines, and this one."""

import ipaddress
import socket
from pathlib import Path

import pytest

from meshllm_core.transport.interface_facts import Fact, gather
from meshllm_core.transport.interfaces import usable

LO = Fact("lo", ("127.0.0.1/8", "::1/128"), loopback=True, hardware=False)
ETH = Fact("eth0", ("192.168.1.5/24", "fe80::1/64", "2001:db8::5/64"))
DOCKER = Fact("docker0", ("172.17.0.1/16",), bridge=True, hardware=False)
DOCKER_DOWN = Fact("docker0", ("172.17.0.1/16",), bridge=True, hardware=False, up=False)
TUN = Fact("tun0", ("10.8.0.2/24",), point_to_point=True, hardware=False)
LAN_BRIDGE = Fact("br0", ("192.168.1.9/24",), bridge=True, hardware=False)


def addresses(*facts: Fact, ask: tuple[str, ...] = ()) -> list[str]:
    return [interface.address for interface in usable(ask, facts=facts)[0]]


def sentences(*facts: Fact, ask: tuple[str, ...] = ()) -> list[str]:
    return [left.sentence for left in usable(ask, facts=facts)[1]]


def test_a_usual_machine_with_docker_and_a_vpn() -> None:
    assert addresses(LO, DOCKER, TUN, ETH) == ["192.168.1.5", "2001:db8::5"]
    said = sentences(LO, DOCKER, TUN, ETH)
    assert "172.17.0.1 on docker0: a bridge of containers; use --bind-ip 172.17.0.1 to use it anyway" in said
    assert "10.8.0.2 on tun0: a VPN; use --bind-ip 10.8.0.2 to use it anyway" in said
    assert not [sentence for sentence in said if "fe80" in sentence]


def test_a_bridge_that_is_down_is_left_out_even_when_asked_for() -> None:
    assert addresses(ETH, DOCKER_DOWN) == addresses(ETH)
    assert addresses(ETH, DOCKER_DOWN, ask=("172.17.0.1",)) == []
    assert "172.17.0.1 on docker0: the interface is down" in sentences(ETH, DOCKER_DOWN, ask=("172.17.0.1",))


@pytest.mark.parametrize("ask", ["192.168.1.9", "br0"])
def test_a_bridge_that_is_the_lan_is_used_when_asked_for(ask: str) -> None:
    assert addresses(LO, LAN_BRIDGE) == []
    assert addresses(LO, LAN_BRIDGE, ETH, ask=(ask,)) == ["192.168.1.9"]
    assert "192.168.1.5 on eth0: --bind-ip names others" in sentences(LO, LAN_BRIDGE, ETH, ask=(ask,))


def test_any_address_asks_for_nothing() -> None:
    assert addresses(LO, DOCKER, ETH, ask=("0.0.0.0",)) == addresses(ETH)


def test_what_was_asked_for_and_is_not_there_is_named() -> None:
    used, left = usable(("10.1.2.3",), facts=[LO, ETH])
    assert used == []
    assert [entry.sentence for entry in left if entry.name == "10.1.2.3"] == [
        "--bind-ip 10.1.2.3: no interface of this machine is called so or has it;"
        " it has 192.168.1.5, 2001:db8::5"
    ]


def test_loopback_alone_leaves_nothing_but_a_sentence() -> None:
    assert addresses(LO) == []
    assert sentences(LO)[0].startswith("127.0.0.1 on lo: only this machine itself reaches it")
    assert addresses(LO, ask=("127.0.0.1",)) == ["127.0.0.1"]
    assert sentences() == ["This machine has no network interface: connect it to a network."]


def test_addresses_that_say_more_than_their_interface() -> None:
    selfmade = Fact("eth0", ("169.254.7.7/16",))
    tailnet = Fact("eth1", ("100.101.102.103/10", "fd7a:115c:a1e0::1/128"))
    assert addresses(selfmade, tailnet) == []
    assert addresses(selfmade, tailnet, ask=("100.101.102.103",)) == ["100.101.102.103"]
    assert "no router answered" in sentences(selfmade)[0]


@pytest.mark.parametrize(
    "name",
    [
        "bridge100",
        "utun3",
        "awdl0",
        "llw0",
        "vmnet8",
        "vEthernet (WSL)",
        "Tailscale",
        "wg0",
        "vethab12cd",
        "br-0a1b2c3d4e5f",
    ],
)
def test_interfaces_known_by_their_names(name: str) -> None:
    assert addresses(Fact(name, ("10.9.8.7/24",))) == []


@pytest.mark.parametrize(
    "name", ["en0", "en1", "eth0", "enp3s0", "wlan0", "wlp2s0", "Ethernet", "Wi-Fi", "bond0"]
)
def test_interfaces_that_are_used(name: str) -> None:
    assert addresses(Fact(name, ("10.9.8.7/24",))) == ["10.9.8.7"]


def test_order_is_hardware_then_name_and_ipv4_first() -> None:
    tens, two, virtual = (
        Fact("eth10", ("10.0.0.10/24",)),
        Fact("eth2", ("2001:db8::2/64", "10.0.0.2/24")),
        Fact("aa0", ("10.0.0.9/24",), hardware=False),
    )
    assert addresses(virtual, tens, two) == ["10.0.0.2", "10.0.0.10", "10.0.0.9", "2001:db8::2"]
    assert usable(facts=[two])[0][0].network == ipaddress.ip_network("10.0.0.0/24")


def test_an_unplugged_card_is_named() -> None:
    assert "eth1: down (switched off, or no cable)" in sentences(LO, Fact("eth1", up=False))
    assert "wlan0: up, but it has no address yet; does a router answer there?" in sentences(Fact("wlan0"))
    assert sentences(ETH, Fact("ifb0", up=False, hardware=False)) == []


def test_this_machine(tmp_path: Path) -> None:
    facts = {fact.name: fact for fact in gather()}
    loopback = next(fact for fact in facts.values() if "127.0.0.1/8" in fact.addresses)
    assert loopback.loopback and loopback.up
    assert set(facts) <= {name for _, name in socket.if_nameindex()}
    for interface in usable(("127.0.0.1",))[0]:
        assert interface.address == "127.0.0.1"
    for kind in ("bridge", "device"):
        (tmp_path / loopback.name / kind).mkdir(parents=True)
    described = next(fact for fact in gather(tmp_path) if fact.name == loopback.name)
    assert described.bridge and described.hardware and not loopback.bridge

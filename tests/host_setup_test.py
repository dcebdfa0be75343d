"""What the plan changes on the hosts of a hierarchy may be carried out twice, and undone without a trace."""

import os
import re
import subprocess
from pathlib import Path
from typing import Literal

import pytest

from cli import linux
from cli.__main__ import main
from cli.executor import netns, processes
from cli.experiment.schema import Hierarchy
from cli.plan import guards, hierarchy_hosts, network
from cli.plan.planned import RUN, HostStep
from cli.servers import nftables
from cli.zones import zones
from tests.bed import wait_for
from tests.hierarchy_bed import write_world
from tests.slow import slow

pytestmark = pytest.mark.netns


def _is_settled(host: int | None) -> bool:
    """Whether no address is still looked for in the neighborhood: it has no route of its own before."""
    with linux.inside(host):
        return not subprocess.run(["ip", "addr", "show", "tentative"], capture_output=True, check=True).stdout


def _state(host: int | None) -> str:
    """Rules, routes, addresses, devices, rulesets and settings of a host.

    Without what the kernel does by itself some time after a link came up: its state, link-local addresses.
    """
    commands = [
        *(
            ["ip", family, *words]
            for family in ("-4", "-6")
            for words in (["rule"], ["route", "show", "table", "all"])
        ),
        ["ip", "-o", "addr"],
        ["ip", "-o", "-br", "link"],
        ["nft", "list", "ruleset"],
        ["sysctl", "net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding", "net.ipv4.conf.lo.rp_filter"],
        ["sysctl", *(f"net.ipv{one}.conf.lo.forwarding" for one in "46"), "net.ipv6.conf.lo.accept_ra"],
    ]
    with linux.inside(host):
        texts = [subprocess.run(one, capture_output=True, text=True, check=True).stdout for one in commands]
    kept = [
        re.sub(r"@\S+| linkdown| (UP|DOWN|UNKNOWN|LOWERLAYERDOWN) .*| proto kernel.*", "", line)
        for line in "".join(texts).splitlines()
        if not re.search(r"\bf[ef][0-9a-f]{2}::", line)
    ]
    return "\n".join(kept)


@pytest.mark.parametrize("data_path", ["nft", slow("tun")])
def test_setup_may_be_repeated_and_undone(tmp_path: Path, data_path: Literal["tun", "nft"]) -> None:
    """Also twice: a second undo has nothing to do and does not fail."""
    world = write_world(tmp_path / "zones")
    bare = hierarchy_hosts.hierarchy(network.local(2, 4096, servers=2), 2, 2, 4096)
    hosts = netns.build(bare)
    plan, served = tmp_path / "plan", tmp_path / "served"
    every = ("server", "server2", "meta1", "meta2")
    emulated = Hierarchy(resolver=("bind", "bind"), data_path=data_path, instances=2)
    options = ["-o", str(plan), "--instances", "2"]
    options += [
        "--resolver",
        "198.19.254.1,fd00:198:19:fe::1",
        "--resolver",
        "198.19.254.2,fd00:198:19:fe::2",
    ]
    assert main(["zones", "plan", str(world), *options]) == 0
    served.mkdir()
    zones.serve(world, plan, served, hops=[[1, 1, "198.19.253.2", "fd00:198:19:fd::2"]])
    for host in every:
        guard = tmp_path / f"guard-{host}.nft"
        guard.write_text(nftables.guard_ruleset(nftables.Guarded(tunnels=["reprise0"])), encoding="ascii")
    loads = [one for host in every for one in guards.steps(host, nftables.Guarded())]
    steps = [*loads, *hierarchy_hosts.steps(emulated)]
    for name in ("server", "meta1"):  # as on a real host
        with linux.inside(hosts.of(name)):
            Path("/proc/sys/net/ipv4/conf/lo/rp_filter").write_text("2")
            Path("/proc/sys/net/ipv6/conf/lo/accept_ra").write_text("1")
            for family in "46":
                Path(f"/proc/sys/net/ipv{family}/conf/lo/forwarding").write_text("1")
            subprocess.run(["ip", "route", "add", "192.0.2.0/24", "dev", "lo", "table", "100"], check=True)
    for host in every:
        wait_for(lambda host=host: _is_settled(hosts.of(host)), f"addresses of {host}")  # type: ignore[misc]
    before = {host: _state(hosts.of(host)) for host in every}

    def carry_out(step: HostStep, commands: tuple[tuple[str, ...], ...]) -> None:
        processes.carry_out(
            commands,
            hosts.of(step.host),
            lambda text: text.replace(RUN, str(tmp_path)),
            {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            tmp_path / "log",
        )

    with linux.inside(hosts.of("server")):
        subprocess.run(["ip", "link", "add", "gone0", "type", "veth", "peer", "gone1"], check=True)
    for _ in range(2):
        for step in steps:
            carry_out(step, step.apply)
    with linux.inside(hosts.of("server")):  # what goes meanwhile keeps nothing else from its old state
        subprocess.run(["ip", "link", "del", "gone0"], check=True)
    for host, was in before.items():
        assert _state(hosts.of(host)) != was
    if data_path == "tun":  # without its device nothing falls through to the main table
        asked = ["198.41.0.4", "2001:503:ba3e::2:30"]
        with linux.inside(hosts.of("server")):
            subprocess.run(["ip", "link", "del", "dev", "reprise0"], check=True)
            ways = [
                subprocess.run(
                    ["ip", "route", "get", one, "ipproto", "udp", "dport", "53"],
                    capture_output=True, text=True, check=False,
                )
                for one in asked
            ]  # fmt: skip
        assert ["No route to host" in one.stderr for one in ways] == [True, True], ways
    for _ in range(2):
        for step in reversed(steps):
            carry_out(step, step.undo)
    for host, was in before.items():
        assert _state(hosts.of(host)) == was
    for descriptor in hosts.descriptors.values():
        os.close(descriptor)

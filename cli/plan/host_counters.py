"""What every host's kernel has counted, as steps of the plan: before the replay and after it.

The texts are those of the kernel and its tools, so that any counter can be looked up later; report/hosts.py
says what they mean.
"""

from __future__ import annotations

from cli.plan.network import Network
from cli.plan.planned import RESULTS, HostStep, shell

MACHINE = "machine"  # stands for all hosts where they share the machine's own network
BEFORE = "-before"
_FILES = (
    "/proc/sys/kernel/random/boot_id",
    "/proc/net/softnet_stat",
    "/proc/net/snmp",
    "/proc/net/snmp6",
    "/proc/net/netstat",
)
_TOOLS = ("nft -j list counters", "ip -s -s -j link show", "tc -s -j qdisc show")


def read(network: Network, when: str = "") -> tuple[HostStep, ...]:
    """Steps that write counters-HOST`when`.txt of every host into the results."""
    hosts = [host.name for host in network.hosts] or [MACHINE]
    parts = [f"tail -v -n +1 {' '.join(_FILES)}"]
    parts += [f"echo; echo '==> {tool} <=='; {tool}" for tool in _TOOLS]
    line = f'set -C; {{ {"; ".join(parts)}; }} > "$1"'
    return tuple(
        HostStep(f"counters-{host}{when}", host, (shell(line, f"{RESULTS}/counters-{host}{when}.txt"),))
        for host in hosts
    )

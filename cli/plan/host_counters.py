"""What every host's kernel has counted, as steps of the plan: before the replay and after it.

The texts are those of the kernel and its tools, so that any counter can be looked up later; report/hosts.py
says what they mean.
"""

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
_NFTABLES = "nft -j list counters"
_TOOLS = ("readlink /proc/self/ns/net", "ip -s -s -j link show", "tc -s -j qdisc show")


def read(network: Network, when: str = "") -> tuple[HostStep, ...]:
    """Steps that write counters-HOST`when`.txt of every host into the results.

    What nftables counted is subtracted from what the kernel's counters say. So nftables is read last before
    the replay and first after it: a packet that comes between two readings may look like a loss, but no loss
    is hidden.
    """
    hosts = [host.name for host in network.hosts] or [MACHINE]
    parts = [f"tail -v -n +1 {' '.join(_FILES)}", _of_tool(_NFTABLES)]
    parts = [*(parts if when == BEFORE else reversed(parts)), *map(_of_tool, _TOOLS)]
    line = f'set -C; {{ {"; ".join(parts)}; }} > "$1"'
    return tuple(
        HostStep(f"counters-{host}{when}", host, (shell(line, f"{RESULTS}/counters-{host}{when}.txt"),))
        for host in hosts
    )


def _of_tool(tool: str) -> str:
    return f"echo; echo '==> {tool} <=='; {tool}; echo"

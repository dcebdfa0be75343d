"""`reprise doctor`: what this machine can do, line by line: ok, limited or missing, and the hint."""

import argparse
import os
import platform
import resource
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cli import linux, programs
from cli.errors import EXIT_FAILED, RepriseError
from cli.executor import netns, sandbox
from cli.executor.preflight import existing
from cli.hosts import leftovers
from cli.plan import facts, hierarchy_hosts, network
from cli.servers import nftables
from cli.servers.kinds import KINDS
from cli.tools import packages as debian

_PROGRAMS = (*programs.REPLAY, *programs.HIERARCHY)
OK, LIMITED, MISSING = "ok", "limited", "missing"
_WAKEUPS = 200
_WAKEUP_GAP_NS = 1_000_000
_LATE_US = 150.0  # a wake-up later than this at p99 shows in the timing error of a run
_SPACE_BYTES = 1 << 30
_SETTINGS = Path("/proc/sys")
_LARGEST_BUFFER = Path("/proc/sys/net/core/rmem_max")
_KERNEL_TYPES = Path("/sys/kernel/btf/vmlinux")
# Settings of the whole machine that bound its connections, and what 100,000 with both ends here need.
_BOUNDS = (("fs/file-max", 400_000), ("net/ipv4/tcp_mem", 131_072), ("net/ipv4/tcp_max_orphans", 65_536))


class Finding(NamedTuple):
    """What a check says; the hint is empty where all is well."""

    state: str
    detail: str
    hint: str = ""

    def line(self, subject: str) -> str:
        return f"{self.state:<8} {subject:<12} {self.detail}" + (f"; {self.hint}" if self.hint else "")


def judged(good: bool, detail: str, hint: str) -> Finding:
    """What is well, or else limited, with a hint."""
    return Finding(OK, detail) if good else Finding(LIMITED, detail, hint)


def command_doctor(options: argparse.Namespace) -> int:
    """Prints every finding; 1 when something is missing."""
    checks: dict[str, Callable[[], Finding]] = {
        **{"system": system, "kernel": kernel, "packages": packages, "servers": servers, "programs": built},
        **{"namespaces": namespaces, "fast mode": fast_mode, "stateless": stateless},
        **{"interfaces": interfaces, "hierarchies": data_paths, "descriptors": descriptors},
        **{"ports": local_ports, "connections": connections, "clock": clocksource, "timers": wakeups},
        **{"buffers": buffers, "steal": steal, "space": lambda: space(options.output)},
    }
    states = set()
    for subject, check in checks.items():
        found = check()
        print(found.line(subject), flush=True)
        states.add(found.state)
    return EXIT_FAILED if MISSING in states else 0


def system() -> Finding:
    name, tested = linux.system()
    detail = f"{name or 'no name'}, {'' if tested else 'not '}tested"
    return judged(tested, detail, f"Reprise is tested on {linux.TESTED}")


def servers() -> Finding:
    """The releases of the servers that are installed, and whether the tests ran with them."""
    there = {kind: version for kind in KINDS.values() if (version := kind.version())}
    detail = ", ".join(f"{kind.title} {version}" for kind, version in there.items()) or "none is installed"
    untested = [line for kind, version in there.items() if (line := kind.untested(version))]
    return judged(not untested, detail, "; ".join(untested))


def kernel() -> Finding:
    """The design asks for nothing newer than Debian 12's kernel."""
    release = platform.release()
    numbers = tuple(int(part) for part in release.split("-", 1)[0].split(".")[:2] if part.isdigit())
    detail = release if numbers >= (5, 10) else f"{release} is older than what is tested"
    return judged(detail == release, detail, "use Linux 6.1 or newer")


def packages() -> Finding:
    """Packages of all sections of packages.txt, asked of dpkg in one call. What only some commands need is
    installed with them, and so no fault.
    """
    listed = debian.listed()
    absent = debian.missing(name for names in listed.values() for name in names)
    by_section = {section: [name for name in names if name in absent] for section, names in listed.items()}
    needed = [*by_section.pop("base", ()), *by_section.pop("run")]
    if needed:
        return Finding(MISSING, ", ".join(needed), f"apt-get install {' '.join(needed)}")
    later = ", ".join(section for section, names in by_section.items() if names)
    count = sum(len(names) for names in listed.values()) - len(absent)
    if programs.INSTALLED and later:
        names = sorted(name for names in by_section.values() for name in names)
        hint = f"for {later}: apt install {' '.join(names)}"
        return Finding(OK, f"{count} are installed", hint)
    rest = f"; those for {later} come with the commands that need them" if later else ""
    return Finding(OK, f"{count} are installed{rest}")


def built() -> Finding:
    absent = []
    for name in _PROGRAMS:
        try:
            programs.own(name)
        except RepriseError:
            absent.append(name)
    if absent:
        hint = "apt install --reinstall reprise" if programs.INSTALLED else "run ./reprise, which builds them"
        return Finding(MISSING, ", ".join(absent), hint)
    names = ", ".join(name.removeprefix("reprise-") for name in _PROGRAMS)
    return Finding(OK, f"{names} are built")


def namespaces() -> Finding:
    """Really makes the smallest topology in a sandbox and throws it away."""
    who = "root" if os.geteuid() == 0 else "an unprivileged user namespace"
    try:
        status, trouble = _tried(_try_network)
    except RepriseError as error:
        return Finding(MISSING, error.what, error.hint)
    if status != 0:
        hint = "run as root, or allow unprivileged user namespaces"
        return Finding(MISSING, trouble or "cannot be made", hint)
    if trouble:
        return Finding(LIMITED, f"made by {who}; settings refused: {trouble}", "run as root")
    return Finding(OK, f"local topology can be made by {who}")


def _tried(what: Callable[[int], int]) -> tuple[int, str]:
    """Calls it in a sandbox; its exit status and what it has written to the descriptor that it is given."""
    with os.fdopen(os.memfd_create("said"), "r+b") as file:
        status = sandbox.run(lambda _life: what(file.fileno()), sandbox.runtime_folder(), own_network=True)
        file.seek(0)
        return status, file.read().decode()


def _try_network(answer: int) -> int:
    try:
        hosts = netns.build(network.local(1, 4096))
    except (RepriseError, OSError) as error:
        os.write(answer, str(error).encode())
        return EXIT_FAILED
    os.write(answer, ", ".join(sorted({one.split(":", 1)[1] for one in hosts.refused_sysctls})).encode())
    return 0


def fast_mode() -> Finding:
    """Source mode "packet": a small program of ours really loads and opens what the mode needs."""
    try:
        argv = [programs.own("reprise-querier"), "packet-check"]
        asked = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20)
    except (RepriseError, OSError, subprocess.TimeoutExpired) as error:
        return Finding(LIMITED, f"cannot be tried: {error}")
    answer = asked.stdout.strip() or asked.stderr.strip()
    reason = answer.removeprefix("none ")
    detail, hint = f"not available ({reason})", "run as root on Linux 5.18 or newer"
    if answer == "xdp":
        detail = 'source mode "packet" sends and receives by XDP'
    elif "clang-19" in reason:
        detail = "XDP is not built; it comes with the first run in source mode packet"
        hint = "apt-get install clang-19"
    return judged(answer == "xdp", detail, hint)


def stateless() -> Finding:
    """server.front = "bpf": whether the kernel has what gives it connections, by its own type information."""
    try:
        types = _KERNEL_TYPES.read_bytes()
    except OSError:
        what = 'server.front = "bpf" cannot be used: the kernel has no type information (BTF)'
        return Finding(LIMITED, what, 'use server.front = "reference", or a kernel with BTF')
    if b"\0bpf_sk_assign_tcp_reqsk\0" in types:
        return Finding(OK, 'server.front = "bpf" can give connections to the kernel\'s TCP')
    what = 'server.front = "bpf" works only with front.promote = false: no bpf_sk_assign_tcp_reqsk'
    return Finding(LIMITED, what, "use Linux 6.9 or newer with CONFIG_SYN_COOKIES")


def interfaces() -> Finding:
    """What would answer or drop packets in a server's place, on this machine's own interfaces: the first one,
    and those that a front of ours left before others.
    """
    try:
        every = [one for name in leftovers.interfaces() for one in leftovers.found(name)]
    except RepriseError as error:
        return Finding(LIMITED, f"not looked at: {error.what}", error.hint)
    if not every:
        return Finding(OK, "no filters, XDP programs or rules on any interface")
    first = min(every, key=lambda one: not one.ours)
    more = f" ({len(every)} of this kind in all)" if len(every) > 1 else ""
    return Finding(LIMITED, f"{first.what}{more}", first.hint)


def data_paths() -> Finding:
    """What hierarchies need: a ruleset (its guards are one) and a TUN device, made in a sandbox."""
    if programs.find("nft") is None:
        what = "nft is not installed and comes with the first hierarchy"
        return Finding(LIMITED, what, f"apt-get install {programs.package_of('nft')}")
    try:
        works = _tried(_try_data_paths)[1].splitlines()
    except RepriseError as error:
        return Finding(LIMITED, error.what, error.hint)
    if "nft" not in works:
        return Finding(LIMITED, "nftables do not work in a namespace", "use a kernel with nf_tables")
    detail = 'data_path "tun" and "nft" work' if "tun" in works else 'no TUN device: only data_path = "nft"'
    return judged("tun" in works, detail, "as root: chmod 666 /dev/net/tun")


def _try_data_paths(answer: int) -> int:
    for name, argv in (
        ("nft", ["nft", "-f", "-"]),
        ("tun", ["ip", "tuntap", "add", "dev", hierarchy_hosts.TUN, "mode", "tun"]),
    ):
        found = programs.find(argv[0])
        ruleset = nftables.guard_ruleset(nftables.Guarded(tunnels=(hierarchy_hosts.TUN,)))
        done = found and subprocess.run(
            [found, *argv[1:]], input=ruleset, capture_output=True, text=True, check=False
        )
        if done and done.returncode == 0:
            os.write(answer, f"{name}\n".encode())
    return 0


def descriptors() -> Finding:
    """Sockets a process may hold; queriers and servers live on them."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    limit = facts.raise_descriptors()
    detail = f"{limit} a process (soft limit now {soft}, raised by each run)"
    return judged(limit >= 16_384, detail, "raise the hard limit (ulimit -Hn, limits.conf) to 65536")


def local_ports() -> Finding:
    """Set inside each namespace; only servers at an address use the machine's own range."""
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split())
    detail = f"{high - low + 1} local ports outside of namespaces ({low}-{high})"
    return judged(high - low >= 20_000, detail, 'sysctl -w net.ipv4.ip_local_port_range="1024 65535"')


def connections() -> Finding:
    """Bounds of the whole machine on TCP connections; a run sets those of its namespaces itself. Within a
    network namespace, as in a container, some are not shown. The last number of each setting counts:
    tcp_mem's is the hard bound, in pages.
    """
    shown = [(key, least, _SETTINGS / key) for key, least in _BOUNDS if (_SETTINGS / key).exists()]
    low = [(key, least) for key, least, file in shown if int(file.read_text("ascii").split()[-1]) < least]
    if not low:
        return Finding(OK, "100,000 TCP connections with both ends on this machine")
    detail = ", ".join(f"{key.replace('/', '.')} is below {least}" for key, least in low)
    # tcp_mem has three numbers: below the first nothing is done, above the second buffers shrink.
    values = {key: str(least) for key, least in low}
    values |= {key: f"{n // 2} {n * 3 // 4} {n}" for key, n in low if key.endswith("tcp_mem")}
    wanted = " ".join(f'{key.replace("/", ".")}="{value}"' for key, value in values.items())
    return Finding(LIMITED, f"{detail}: not enough for 100,000", f"sysctl -w {wanted}")


def clocksource() -> Finding:
    """A clock that needs a system call for each reading costs time in every query."""
    base = Path("/sys/devices/system/clocksource/clocksource0")
    try:
        current = (base / "current_clocksource").read_text("ascii").strip()
    except OSError:
        return Finding(LIMITED, "the clock source is not shown", "mount /sys")
    is_fast = current in ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter")
    detail = current if is_fast else f"{current} is slow to read"
    return judged(is_fast, detail, "boot with clocksource=tsc where the CPU allows it")


def wakeups() -> Finding:
    """How late this machine wakes a sleeper: the floor of a replay's timing error."""
    linux.set_timer_slack(1)
    late = []
    for _ in range(_WAKEUPS):
        due = time.monotonic_ns() + _WAKEUP_GAP_NS
        time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
        late.append(time.monotonic_ns() - due)
    late.sort()
    median, high = late[len(late) // 2] / 1000, late[int(len(late) * 0.99)] / 1000
    detail = f"sleepers wake {median:.0f} us late at the median, {high:.0f} us at p99"
    return judged(high <= _LATE_US, detail, "stop other work on this machine, or give it whole cores")


def buffers() -> Finding:
    """Largest receive buffer a socket may ask for; older kernels show it in the machine's network alone."""
    most = int(_LARGEST_BUFFER.read_text("ascii")) if _LARGEST_BUFFER.exists() else 0
    detail = "receive buffers " + (f"up to {most // 1024} KiB" if most else "of a size not shown here")
    good = most >= 1 << 20 or os.geteuid() == 0
    return judged(good, detail, "sysctl -w net.core.rmem_max=8388608")


def steal() -> Finding:
    """Time that the hypervisor gave to others since boot."""
    fields = [int(word) for word in Path("/proc/stat").read_text("ascii").split("\n", 1)[0].split()[1:]]
    share = fields[7] / max(1, sum(fields[:8])) if len(fields) > 7 else 0.0
    detail = f"{share:.2%} of the time since boot was stolen by the hypervisor"
    return judged(share < 0.01, detail, "compare CPU seconds, and leave out seconds with steal")


def space(results: Path) -> Finding:
    folder = existing(results)
    free = shutil.disk_usage(folder).free
    detail = f"{free / (1 << 30):.1f} GiB free for results in {folder}"
    return judged(free >= _SPACE_BYTES, detail, "make room, or choose another folder with -o")

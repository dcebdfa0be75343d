"""What a packet costs the proxies: dnsperf asks NSD through both of them.

Usage: python -m tests.proxy_cost [--rate Q/S] [--seconds N] [--accept-local] [OPTIONS OF THE PROXIES ...]
Prints one line of JSON for each side: packets, those dropped unread, and CPU seconds per million packets, of
the process with all that the kernel does on its account (here also the stack of the receiver, which is on the
same machine).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from cli import programs
from tests.bed import ZONE, wait_for
from tests.proxy_bed import META, META4, META6, RESOLVER, ROOT_A4, ProxyBed

CONFIG = """server:
{addresses}
  server-count: 1
  username: ""
  pidfile: ""
  database: ""
  xfrdfile: ""
  zonesdir: "{folder}"
  zonelistfile: "{folder}/zones"
  rrl-ratelimit: 0
remote-control:
  control-enable: no
zone:
  name: "."
  zonefile: "{folder}/zone"
"""


def start_nsd(bed: ProxyBed) -> None:
    (bed.folder / "zone").write_text(ZONE, encoding="ascii")
    addresses = "\n".join(f"  ip-address: {one}" for one in (*META4.values(), *META6.values()))
    config = bed.folder / "nsd.conf"
    config.write_text(CONFIG.format(addresses=addresses, folder=bed.folder), encoding="ascii")
    server = bed.start(META, "nsd", [programs.packaged("nsd"), "-d", "-c", str(config)])
    wait_for(lambda: "nsd started" in server.text() or server.process.poll() is not None, "nsd started")
    assert server.process.poll() is None, server.text()


def ask(bed: ProxyBed, rate: int, seconds: int) -> str:
    """dnsperf's own report; as fast as answers allow where the rate is 0."""
    names = bed.folder / "names"
    names.write_text("".join(f"a{number}.com A\n" for number in range(1000)), encoding="ascii")
    argv = [programs.packaged("dnsperf"), "-s", ROOT_A4, "-d", str(names), "-l", str(seconds), "-c", "4"]
    return bed.output(RESOLVER, *argv, "-T", "1", *(("-Q", str(rate)) if rate else ()))


def cost(statistics: dict[str, Any]) -> dict[str, Any]:
    read = statistics["packets"]["read"]
    return {
        "side": statistics["side"],
        "packets": read,
        "unread": statistics["packets"]["unread"],
        "cpu_s_per_million": round(statistics["cpu_s"] / max(read, 1) * 1e6, 2),
        "delay_error_us": statistics["delay_error_us"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--accept-local", action="store_true")
    options, others = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        bed = ProxyBed(Path(folder))
        try:
            if options.accept_local:
                for host in (RESOLVER, META):
                    bed.output(host, "sysctl", "-w", "net.ipv4.conf.all.accept_local=1")
            start_nsd(bed)
            proxies = {host: bed.start_proxy(host, *others) for host in (RESOLVER, META)}
            report = ask(bed, options.rate, options.seconds)
            print("\n".join(line.strip() for line in report.splitlines() if "per second" in line))
            for host, program in proxies.items():
                print(json.dumps(cost(bed.finish(program, host))))
        finally:
            bed.close()


if __name__ == "__main__":
    main()

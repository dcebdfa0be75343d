"""The test bed as the benches measure on it: processes pinned to cores, their readings taken.

The client's side runs on core 0, the server's side and the controller, which is another host, on core 1.
Readings of processor time and packet counters are kept as the kernel gave them, one JSON object a line: what
they mean is for recompute.py to say.
"""

import json
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import veth
from cli import linux, programs
from cli.plan import network
from cli.process import Process
from tests import bed as beds
from tests.bed import BareBed

CLIENT_CORE = 0
SERVER_CORE = 1
CLIENT = network.client(1)
CLIENT_IF = "data"
SERVER_IF = "data1"
SERVER = network.SERVICE_V4
SERVER6 = network.SERVICE_V6
_LISTEN_QUEUE = 65_535


@dataclass(frozen=True)
class Log:
    """Readings of one run in a file."""

    path: Path

    def add(self, when: str, who: str, kind: str, **values: Any) -> None:
        """`when`: before, after (of what is measured) or end (of a process)."""
        row = {"mono_ns": time.monotonic_ns(), "when": when, "who": who, "kind": kind, **values}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def process(self, when: str, who: str, pid: int, *kinds: str) -> None:
        """Files in /proc of a process or kernel thread; `schedstat`: ns running, ns waiting, time slices."""
        for kind in kinds:
            text = Path(f"/proc/{pid}/{kind}").read_text(encoding="ascii").strip()
            self.add(when, who, kind, pid=pid, text=text)

    def processes(self, pids: Sequence[int], when: str, who: str) -> None:
        """What every thread of processes has used so far, and each process's line of `stat`,
        which tells user and system time apart.
        """
        texts, stats = {}, {}
        for pid in pids:
            folder = Path(f"/proc/{pid}")
            stats[str(pid)] = (folder / "stat").read_text(encoding="utf-8").strip()
            for one in (folder / "task").iterdir():
                texts[f"{pid}/{one.name}"] = (one / "schedstat").read_text(encoding="ascii").strip()
        self.add(when, who, "threads", texts=texts)
        self.add(when, who, "stats", texts=stats)

    def file(self, when: str, who: str, kind: str, path: Path) -> None:
        self.add(when, who, kind, text=path.read_text(encoding="ascii"))

    def interface(self, when: str, who: str, folder: Path) -> None:
        """All counters of an interface (its folder in /sys/class/net)."""
        values = {
            file.name: file.read_text(encoding="ascii").strip()
            for file in sorted((folder / "statistics").iterdir())
        }
        self.add(when, who, "interface", values=values)


class Measured(Process):
    """A program whose use of the processor is written to the readings at its end."""

    def reap(self) -> int:
        if self.exit is None:
            readings = Log(self.log.with_name("readings.jsonl"))
            self.has_ended(None)
            # What it used itself, and then, as wait4 says, with all children that it waited for.
            readings.process("end", self.name, self.pid, "schedstat", "stat")
            super().reap()
            used = self.usage
            assert used is not None
            spent = {"user_s": used.ru_utime, "system_s": used.ru_stime, "peak_kb": used.ru_maxrss}
            readings.add("end", self.name, "rusage", pid=self.pid, exit=self.exit, **spent)
        return super().reap()


def start(folder: Path, name: str, core: int, argv: list[str]) -> Measured:
    return beds.start(Measured, folder, name, argv, core)


class MeasuredBed(BareBed):
    """Hosts whose interfaces can receive in kernel threads of their own."""

    program = Measured

    def close(self) -> None:
        super().close()
        for folder in self.folder.glob("sys-*"):
            subprocess.run([programs.packaged("umount"), "-l", str(folder)], check=False)
            folder.rmdir()

    def sysfs(self, host: str) -> Path:
        """A /sys of the host's own, which shows its interfaces."""
        folder = self.folder / f"sys-{host}"
        if not folder.exists():
            folder.mkdir()
            with self.inside(host):
                linux.mount("sysfs", str(folder), "sysfs", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
        return folder

    def receive_apart(self, host: str, interface: str, core: int) -> int:
        """From now on the interface receives in a kernel thread on the core; its process number."""
        thread = veth.use_threaded_napi(self.hosts.of(host), self.sysfs(host), interface)
        os.sched_setaffinity(thread, {core})
        return thread

    @property
    def log(self) -> Log:
        """The run's readings, where its programs write theirs too."""
        return Log(self.folder / "readings.jsonl")


class Bed(MeasuredBed, beds.Bed):
    """Client, server and controller for one run in one source mode."""

    run_id = "bench"
    options = ()

    def __init__(self, folder: Path, source_mode: str = "ports", napi: bool = True) -> None:
        folder.mkdir(parents=True)
        beds.Bed.__init__(self, folder, 1, source_mode, listen_queue=_LISTEN_QUEUE)
        self.threads: dict[str, int] = {}
        if napi:
            self.receive_in_threads()

    def receive_in_threads(self) -> None:
        """Client and server receive in kernel threads of their own, each on its side's core."""
        self.threads["napi-client"] = self.receive_apart(CLIENT, CLIENT_IF, CLIENT_CORE)
        self.threads["napi-server"] = self.receive_apart(network.SERVER, SERVER_IF, SERVER_CORE)

    def read(self, when: str) -> None:
        """Readings of what is no process of ours: the threads of NAPI and the interfaces."""
        for who, pid in self.threads.items():
            self.log.process(when, who, pid, "schedstat")
        for who, host, interface in (("client", CLIENT, CLIENT_IF), ("server", network.SERVER, SERVER_IF)):
            self.log.interface(when, who, self.sysfs(host) / "class/net" / interface)

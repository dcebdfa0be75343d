"""The test bed as the benches measure on it: processes pinned to cores, their readings taken.

The client's side runs on core 0, the server's side and the controller, which is another host, on core 1.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from bench import veth
from bench.readings import Log
from cli import linux, programs
from cli.plan import network
from tests import bed as beds
from tests.bed import BareBed, Program

CLIENT_CORE = 0
SERVER_CORE = 1
CLIENT = network.client(1)
CLIENT_IF = "data"
SERVER_IF = "data1"
SERVER = network.SERVICE_V4
SERVER6 = network.SERVICE_V6
_LISTEN_QUEUE = 65_535


class Measured(Program):
    """A program whose use of the processor is written to the readings at its end."""

    @property
    def log(self) -> Log:
        """The readings of its folder."""
        return Log(self.folder / "readings.jsonl")

    def reap(self) -> int:
        """Its exit status."""
        pid = self.process.pid
        if self.process.returncode is None:
            self.log.ended(self.name, pid)
            _, status, usage = os.wait4(pid, 0)
            self.log.reaped(self.name, pid, status, usage)
            self.process.returncode = os.waitstatus_to_exitcode(status)
        return self.process.returncode


def spawn(folder: Path, name: str, core: int, argv: list[str]) -> Measured:
    """Starts a program pinned to a core, its output in the folder."""
    program = beds.spawn(Measured, folder, name, argv, core)
    assert isinstance(program, Measured)
    return program


class MeasuredBed(BareBed):
    """Hosts whose interfaces can receive in kernel threads of their own."""

    program = Measured

    def close(self) -> None:
        """Unmounts what was mounted too."""
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
        veth.pin(thread, core)
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

    def start_sink(self, after_taps: bool = False) -> Program:
        """The server: answers in the kernel."""
        argv = [programs.own("reprise-sink"), "udp", SERVER_IF, *(["--tc"] if after_taps else [])]
        return self.start(network.SERVER, argv, "sink", SERVER_CORE).until("event=attached")

    def read(self, when: str) -> None:
        """Readings of what is no process of ours: the threads of NAPI and the interfaces."""
        for who, pid in self.threads.items():
            self.log.thread(when, who, pid)
        for who, host, interface in (("client", CLIENT, CLIENT_IF), ("server", network.SERVER, SERVER_IF)):
            self.log.interface(when, who, self.sysfs(host) / "class/net" / interface)

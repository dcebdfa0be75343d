"""A measuring bed: hosts as network namespaces, processes pinned to cores, their readings taken.

The client's side runs on core 0, the server's side and the controller, which is another host, on core 1.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from bench import veth
from bench.readings import Log
from cli import linux, programs
from cli.errors import RepriseError, one_line
from cli.executor import netns
from cli.plan import network

CLIENT_CORE = 0
SERVER_CORE = 1
CLIENT = network.client(1)
CLIENT_IF = "data"
SERVER_IF = "data1"
SERVER = network.SERVICE_V4
SERVER6 = network.SERVICE_V6
_LISTEN_QUEUE = 65_535
_READY_S = 20.0
_STOP_S = 10.0


@dataclass
class Program:
    """A started process; output and errors are files in the run's folder."""

    name: str
    process: subprocess.Popen[bytes]
    folder: Path
    log: Log
    status: int | None = None

    @property
    def errors(self) -> Path:
        """Its standard error."""
        return self.folder / f"{self.name}.err"

    def text(self) -> str:
        """What it wrote to standard error so far."""
        return self.errors.read_text(encoding="utf-8", errors="replace")

    def until(self, text: str) -> None:
        """Waits for a text on its standard error."""
        wait_for(
            lambda: text in self.text() or self.has_ended(0), f"{self.name} to say {text}: {self.last_line()}"
        )
        if text not in self.text():
            raise RepriseError(f"{self.name} ended: {self.last_line()}", f"see {self.errors}")

    def last_line(self) -> str:
        """For messages."""
        lines = self.text().splitlines() if self.errors.exists() else []
        return one_line(lines[-1]) if lines else "no message"

    def has_ended(self, limit_s: float) -> bool:
        """Waits for its end for so long; it stays to be reaped."""
        if self.status is not None:
            return True
        descriptor = os.pidfd_open(self.process.pid)
        try:
            return bool(select.select([descriptor], [], [], limit_s)[0])
        finally:
            os.close(descriptor)

    def finish(self, limit_s: float) -> int:
        """Waits for the end, writes what it used to the readings, returns its exit status."""
        if self.status is not None:
            return self.status
        if not self.has_ended(limit_s):
            self.process.kill()
            self.has_ended(_STOP_S)
            self._reap()
            raise RepriseError(f"{self.name} did not end in {limit_s:.0f} s", f"see {self.errors}")
        return self._reap()

    def _reap(self) -> int:
        pid = self.process.pid
        self.log.ended(self.name, pid)
        _, status, usage = os.wait4(pid, 0)
        self.log.reaped(self.name, pid, status, usage)
        self.status = self.process.returncode = os.waitstatus_to_exitcode(status)
        return self.status

    def stop(self, number: int = signal.SIGINT) -> int:
        """Asks it to end."""
        if not self.has_ended(0):
            self.process.send_signal(number)
        return self.finish(_STOP_S)


def spawn(folder: Path, name: str, core: int, argv: list[str], netns: int | None = None) -> Program:
    """Starts a program pinned to a core, its output in the folder; it dies with this process."""

    def prepare() -> None:
        linux.die_with_parent(signal.SIGKILL)
        os.sched_setaffinity(0, {core})

    out, errors = folder / f"{name}.out", folder / f"{name}.err"
    with linux.inside(netns), out.open("wb") as output, errors.open("wb") as error:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=error,
            preexec_fn=prepare,  # noqa: PLW1509 - this process has one thread
        )
    return Program(name, process, folder, Log(folder / "readings.jsonl"))


@dataclass
class Bed:
    """Namespaces for one run in one source mode; everything ends with the `with` block."""

    folder: Path
    source_mode: str = "ports"
    napi: bool = True
    hosts: netns.Hosts = field(default_factory=netns.Hosts)
    threads: dict[str, int] = field(default_factory=dict)
    sysfs: dict[str, Path] = field(default_factory=dict)
    started: list[Program] = field(default_factory=list)

    def __enter__(self) -> Bed:
        self.folder.mkdir(parents=True)
        self.hosts = netns.build(network.local(1, _LISTEN_QUEUE, self.source_mode))
        for who, host, interface, core in (
            ("client", CLIENT, CLIENT_IF, CLIENT_CORE),
            ("server", network.SERVER, SERVER_IF, SERVER_CORE),
        ):
            self.sysfs[who] = self._mount_sysfs(host)
            if self.napi:
                thread = veth.use_threaded_napi(self.hosts.of(host), self.sysfs[who], interface)
                veth.pin(thread, core)
                self.threads[f"napi-{who}"] = thread
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for program in reversed(self.started):
            if program.status is None:
                program.process.kill()
                program.process.wait()
        for folder in self.sysfs.values():
            subprocess.run([programs.packaged("umount"), "-l", str(folder)], check=False)
            folder.rmdir()
        for descriptor in self.hosts.descriptors.values():
            os.close(descriptor)

    def _mount_sysfs(self, host: str) -> Path:
        """A /sys of the host's own, which shows its interfaces."""
        folder = self.folder / f"sys-{host}"
        folder.mkdir()
        with linux.inside(self.hosts.of(host)):
            linux.mount("sysfs", str(folder), "sysfs", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
        return folder

    @property
    def log(self) -> Log:
        """The run's readings, where its programs write theirs too."""
        return Log(self.folder / "readings.jsonl")

    def start(self, name: str, host: str, core: int, argv: list[str]) -> Program:
        """Starts a program on a host, pinned to a core; it dies with this process."""
        self.started.append(spawn(self.folder, name, core, argv, self.hosts.of(host)))
        return self.started[-1]

    def start_sink(self, after_taps: bool = False) -> Program:
        """The server: answers in the kernel."""
        argv = [programs.own("reprise-sink"), SERVER_IF, *(["--tc"] if after_taps else [])]
        sink = self.start("sink", network.SERVER, SERVER_CORE, argv)
        sink.until("event=attached")
        return sink

    def read(self, when: str) -> None:
        """Readings of what is no process of ours: the threads of NAPI and the interfaces."""
        for who, pid in self.threads.items():
            self.log.thread(when, who, pid)
        self.log.interface(when, "client", self.sysfs["client"] / "class/net" / CLIENT_IF)
        self.log.interface(when, "server", self.sysfs["server"] / "class/net" / SERVER_IF)


def wait_for(condition: Callable[[], bool], what: str, limit_s: float = _READY_S) -> None:
    """Polls until the condition holds."""
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            raise RepriseError(f"waited {limit_s:.0f} s in vain for {what}", "see the run's folder")
        time.sleep(0.01)

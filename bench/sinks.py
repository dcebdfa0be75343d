"""The servers of the bed: each answers every query with the query itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.bed import SERVER, SERVER6, SERVER_CORE, Bed
from cli import programs
from cli.plan import certificates, network
from cli.process import Process

NAME = "server.reprise.test"
TLS_PORT = 853
_EARLY_DATA = 16_384  # bytes, as OpenSSL's own server takes


@dataclass(frozen=True)
class UdpSink:
    """In the kernel, at the server's interface."""

    filter: str = "udp dst port 53"
    snap: int = 192  # bytes of a packet: enough for the question

    def start(self, bed: Bed, captured: bool) -> Process:
        """Where packets are captured the sink answers behind the taps."""
        return bed.start_sink(after_taps=captured)


@dataclass(frozen=True)
class TcpSink:
    """Processes that share a port, over TCP or, with an identity, TLS."""

    identity: Identity | None = None
    delay_ms: int = 0  # before each answer
    early_data: bool = False
    filter: str = f"tcp port 53 or tcp port {TLS_PORT}"
    snap: int = 65_535

    def start(self, bed: Bed, captured: bool) -> Process:
        """Where packets are captured the secrets of TLS are kept for tshark."""
        argv = [programs.own("reprise-sink"), "tcp", "--delay-ms", str(self.delay_ms)]
        if self.identity:
            argv += ["--port", str(TLS_PORT), "--cert", f"{self.identity.stem}.pem"]
            argv += ["--key", f"{self.identity.stem}.key"]
            argv += ["--early-data", str(_EARLY_DATA)] if self.early_data else []
            argv += ["--keylog", str(bed.folder / "keys.txt")] if captured else []
        return bed.start(network.SERVER, argv, "sink", SERVER_CORE).until("event=listening")


@dataclass(frozen=True)
class Identity:
    """The server's certificate and key, and the authority that clients trust, in a session's folder."""

    folder: Path

    @property
    def stem(self) -> Path:
        """Of the files of certificate and key."""
        return self.folder / "server"

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"

    def make(self, key_type: str) -> None:
        """Writes the files; the folder goes with the session's end."""
        self.folder.mkdir(mode=0o700)
        stems, addresses = {str(self.stem): ""}, (SERVER, SERVER6)
        certificates.write_service(stems, self.authority, NAME, addresses, key_type)


Sink = UdpSink | TcpSink
UDP = UdpSink()

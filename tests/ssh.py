"""A real ssh server with keys of its own, and the configuration by which clients reach it."""

import contextlib
import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cli import programs
from cli.process import Process


@contextlib.contextmanager
def shared_connections() -> Iterator[tuple[str, ...]]:
    """Options by which commands that follow each other share a connection; its socket needs a short path."""
    with tempfile.TemporaryDirectory(prefix="ssh-") as folder:
        yield "ControlMaster=auto", "ControlPersist=5s", f"ControlPath={folder}/%C"


class Ssh:
    """Keys and configurations in a folder."""

    def __init__(self, folder: Path, port: int) -> None:
        folder.mkdir()
        self.folder, self.port = folder, port
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)

    def config(self, addresses: Mapping[str, str]) -> Path:
        """The clients' configuration, with hosts by their names."""
        path = self.folder / "config"
        path.write_text(
            "".join(f"Host {name}\n  HostName {address}\n" for name, address in addresses.items())
            + f"Host *\n  Port {self.port}\n  User {pwd.getpwuid(os.getuid()).pw_name}\n"
            f"  IdentityFile {self.folder}/user\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.folder}/known\n  StrictHostKeyChecking accept-new\n"
            "  LogLevel ERROR\n  KexAlgorithms curve25519-sha256\n"
        )
        return path

    def server_config(self, addresses: Sequence[str], seen: Path, pam: str = "no") -> str:
        """Of a server that sees our folder at another place."""
        listen = "".join(f"ListenAddress {one}\n" for one in addresses)
        return (
            # bash reads no ~/.bashrc then, which on some machines takes longer than the command itself
            f"Port {self.port}\n{listen}SetEnv SHLVL=1\n"
            f"HostKey {seen}/host\nAuthorizedKeysFile none\n"
            f"AuthorizedKeysCommand /usr/bin/cat {seen}/user.pub\nAuthorizedKeysCommandUser root\n"
            f"PidFile none\nUsePAM {pam}\nStrictModes no\nPermitRootLogin yes\n"
        )

    @contextlib.contextmanager
    def serve(
        self, addresses: list[str], netns: int | None = None, wrap: Sequence[str] = ()
    ) -> Iterator[None]:
        """The server, in a network namespace of ours where one is given, started by the words of `wrap`."""
        name = f"sshd-{addresses[0]}"
        config = self.folder / name
        config.write_text(self.server_config(addresses, self.folder))
        Path("/run/sshd").mkdir(exist_ok=True)
        argv = [*wrap, programs.packaged("sshd"), "-D", "-e", "-f", str(config)]
        daemon = Process.started(argv, self.folder / f"{name}.log", netns=netns)
        try:
            yield
        finally:
            daemon.stop(limit_s=10)

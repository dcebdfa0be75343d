"""Experiments with an emulated hierarchy: a small world by hand, traces by rows, runs through the command."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dns.message

from cli.process import Process
from report.rafile import join
from report.sources import digested
from tests import command

ROOT, TLD, SLD, BIG = "198.41.0.4", "192.5.6.30", "203.0.114.1", "big.example.com."
MANY, RECORDS = "many.example.com.", 150  # addresses, and other types
ROOT6, TLD6, SLD6 = "2001:503:ba3e::2:30", "2001:503:a83e::2:30", "2a00:1::1"
SOA = "3600 IN SOA ns.example. hostmaster.example. 1 1800 900 604800 300"

ZONES = {
    ".": f""". {SOA}
. 3600 IN NS a.root-servers.net.
a.root-servers.net. 3600 IN A {ROOT}
a.root-servers.net. 3600 IN AAAA {ROOT6}
com. 3600 IN NS a.nic.com.
a.nic.com. 3600 IN A {TLD}
a.nic.com. 3600 IN AAAA {TLD6}
""",
    "com.": f"""com. {SOA}
com. 3600 IN NS a.nic.com.
a.nic.com. 3600 IN A {TLD}
a.nic.com. 3600 IN AAAA {TLD6}
example.com. 3600 IN NS ns1.example.com.
ns1.example.com. 3600 IN A {SLD}
ns1.example.com. 3600 IN AAAA {SLD6}
elsewhere.com. 3600 IN NS ns1.elsewhere.com.
ns1.elsewhere.com. 3600 IN A 203.0.115.9
""",
    "example.com.": f"""example.com. {SOA}
example.com. 3600 IN NS ns1.example.com.
ns1.example.com. 3600 IN A {SLD}
ns1.example.com. 3600 IN AAAA {SLD6}
www.example.com. 3600 IN A 198.51.100.1
*.w.example.com. 3600 IN A 198.51.100.2
alias.example.com. 3600 IN CNAME www.example.com.
{BIG} 3600 IN TXT {" ".join(chr(34) + letter * 250 + chr(34) for letter in "abcdefghijklmno")}
"""
    + "".join(
        f"{MANY} 3600 IN A 198.51.100.{number}\n{MANY} 3600 IN TYPE{65_280 + number} \\# 1 00\n"
        for number in range(1, RECORDS + 1)
    ),
}
ADDRESSES = {".": [ROOT, ROOT6], "com.": [TLD, TLD6], "example.com.": [SLD, SLD6]}
_COLUMNS = (
    "time source port destination dport transport connection id flags opcode name class type edns do version "
    "options rtt idle hex"
)


def write_world(folder: Path, extra: dict[str, str] | None = None) -> Path:
    """Three zones on a server each; `extra` are further zone files by name, served beside example.com."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for name, text in {**ZONES, **(extra or {})}.items():
        file = f"{name.rstrip('.') or 'root'}.zone"
        (folder / file).write_text(text, encoding="ascii")
        entries.append({"name": name, "file": file, "addresses": ADDRESSES.get(name, [SLD, SLD6])})
    (folder / "zones.json").write_text(json.dumps({"schema": 1, "zones": entries}), encoding="ascii")
    return folder


@dataclass(frozen=True)
class Ask:
    """A row of a trace."""

    name: str
    kind: str = "A"
    transport: str = "udp"
    edns: str = "1232"
    do: str = "0"


def write_trace(path: Path, asks: list[Ask], gap_s: float = 0.01, sources: int = 5) -> Path:
    """One query each `gap_s`, from some sources in turn."""
    lines = ["#reprise-text 1", "\t".join(_COLUMNS.split())]
    for number, ask in enumerate(asks):
        source = f"192.0.2.{1 + number % sources}"
        words = [
            f"{1704067200 + number * gap_s:.9f}", source, str(10_000 + number), "192.0.2.53", "53",
            ask.transport, "-", str(number), "rd", "QUERY", ask.name, "IN", ask.kind, ask.edns, ask.do,
            "0" if ask.edns != "-" else "-", "-", "-", "-", "-",
        ]  # fmt: skip
        lines.append("\t".join(words))
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    return path


@dataclass(frozen=True)
class Result:
    """A finished run: its exit status, what it said, and its folder (None where nothing was replayed)."""

    status: int
    said: str
    folder: Path | None

    def json(self, name: str) -> dict[str, Any]:
        assert self.folder is not None, self.said
        loaded: dict[str, Any] = json.loads((self.folder / name).read_text())
        return loaded

    @property
    def summary(self) -> dict[str, Any]:
        return self.json("summary.json")

    def answers(self) -> list[dns.message.Message]:
        """The replies in the order of the trace; every query must have one."""
        found = [one for one in self.replies() if one is not None]
        assert len(found) == len(self.replies()), "a query without an answer"
        return found

    def replies(self) -> list[dns.message.Message | None]:
        """The replies in the order of the trace."""
        assert self.folder is not None, self.said
        found = digested(join("answers", list(self.folder.glob("answers-*.ra")))).between(0, 1 << 62)
        return [dns.message.from_wire(one.reply) if one.reply else None for one in found]


def settings_of(zones: Path | None, trace: Path, **more: object) -> list[str]:
    """`--set` settings of an experiment, with what `more` says (two underscores for a dot)."""
    values: dict[str, object] = {
        "trace": trace,
        **({} if zones is None else {"hierarchy.zones": zones}),
        "replay.answers": True,
        "replay.tcp_fallback": False,
        "replay.timeout_s": 12,
        "replay.late_ms": 1000,  # other tests run beside it
        "replay.max_lateness_s": 20,
        "topology.queriers": 1,
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    return [f"{key}={_toml(value)}" for key, value in values.items()]


def _toml(value: object) -> str:
    return str(value) if isinstance(value, Path) else json.dumps(value)


def start(folder: Path, settings: list[str]) -> Process:
    """`reprise run` in a process of its own; what it says is in the folder's file `said`."""
    experiment = folder / "hierarchy.toml"
    experiment.write_text('name = "h"\n[server]\nkind = "hierarchy"\n', encoding="ascii")
    words = ["run", str(experiment), "-o", str(folder / "results")]
    words += [word for setting in settings for word in ("--set", setting)]
    return command.start(*words, cwd=folder, log=folder / "said")


def finish(folder: Path, process: Process) -> Result:
    """Waits for the end of a run."""
    status = process.wait(command.LIMIT_S)
    said = (folder / "said").read_text(encoding="utf-8", errors="replace")
    runs = [one for one in (folder / "results").glob("h-*") if not one.name.endswith(".partial")]
    return Result(status, said, runs[0] if runs else None)


def play(folder: Path, zones: Path | None, trace: Path, **more: object) -> Result:
    """A run from its beginning to its end, in a folder of its own below `folder`."""
    own = folder / f"run{len(list(folder.glob('run*')))}"
    own.mkdir()
    own.chmod(0o755)
    return finish(own, start(own, settings_of(zones, trace, **more)))

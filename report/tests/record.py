"""`python -m report.tests.record FOLDER [NAME ...]`: makes the stored runs of report/tests/runs/ anew.

FOLDER is a source tree whose programs are built: this one, or an older one for the run `older`. What a report
reads of a results folder is packed; the paths, the name and the kernel of the machine are replaced.
"""

import io
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

FOLDER = Path(__file__).with_name("runs")
READ = (
    "manifest.json", "controller.json", "queries-*.rq", "*.csv", "counters-*.txt", "front*.json",
    "proxy-*.json", "resolver-*.json", "zones/plan.json",
)  # fmt: skip
_SYNTH = "[synth]\nseed = 1\nduration = 2\nclients = 4\nrate = "
_SERVED = '[server]\nkind = "nsd"\n'
_ROOT = "[server.root_like]\nseed = 1\n"
_REPLAY = "[topology]\nqueriers = 1\n[replay]\ntimeout_s = 1\n"
_TRUNCATED = f"{_SYNTH}60\ntcp_share = 0.1\n{_SERVED}edns_size = 512\n{_ROOT}{_REPLAY}"
EXPERIMENTS = {
    "udp": f"{_TRUNCATED}tcp_fallback = true\n",
    "tls": f'{_SYNTH}50\n{_SERVED}{_ROOT}{_REPLAY}transport = "tls"\n[tls]\n[sample]\nclients = true\n',
    "bpf": f'{_SYNTH}50\n{_SERVED}front = "bpf"\n{_ROOT}zsk_bits = 4096\n'
    f'{_REPLAY}transport = "stateless-tcp"\n',
    "hierarchy": f'{_SYNTH}30\nprofile = "recursive"\n[server]\nkind = "hierarchy"\n[hierarchy]\n'
    f"[hierarchy.synth]\nzones = 8\nseed = 1\n{_REPLAY}",
    "older": _TRUNCATED,
}


def record(tree: Path, name: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        text = f'schema = 1\nname = "{name}"\n{EXPERIMENTS[name]}'
        (Path(scratch) / f"{name}.toml").write_text(text, encoding="ascii")
        command = [str(tree / ".venv/bin/python"), "-m", "cli", "run", f"{name}.toml"]
        subprocess.run(command, cwd=scratch, env={**os.environ, "PYTHONPATH": str(tree)}, check=False)
        (results,) = (Path(scratch) / "results").iterdir()
        replaced = {
            rf"{re.escape(scratch)}/results/{re.escape(results.name)}(\.partial)?": name,
            re.escape(results.name.removesuffix(".partial")): name,
            re.escape(f"{scratch}/"): "",
            re.escape(platform.release()): "6.1.0",
            rf"\b{re.escape(platform.node())}\b": "desk",
        }
        with tarfile.open(FOLDER / f"{name}.tar.xz", "w:xz") as archive:
            for path in sorted(found for pattern in READ for found in results.glob(pattern)):
                data = path.read_bytes()
                if path.suffix != ".rq":
                    for old, new in replaced.items():
                        data = re.sub(old.encode(), new.encode(), data)
                assert scratch.encode() not in data, path
                entry = tarfile.TarInfo(f"{name}/{path.relative_to(results)}")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for wanted in sys.argv[2:] or EXPERIMENTS:
        record(Path(sys.argv[1]).resolve(), wanted)

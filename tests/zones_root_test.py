"""The authoritative case: a root zone of 2016 as far as one of its servers told of it in a minute, served to
the same minute.
"""

import json
from pathlib import Path

import pytest

from tests import command
from tests.conftest import DATA, REAL_MINUTE
from tests.zones_build_test import build

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(not DATA.is_dir(), reason="shared data is absent"),
]


def test_a_root_server_answers_its_minute_again(tmp_path: Path) -> None:
    minute = REAL_MINUTE
    report = build(tmp_path / "zones", minute)
    assert report["counts"]["used"] > 0.9 * report["counts"]["responses"]
    experiment = tmp_path / "minute.toml"
    experiment.write_text(
        'schema = 1\n[server]\nkind = "nsd"\nedns_size = 4096\n[replay]\nanswers = true\nspeed = 12\n'
        "late_ms = 1000\n[topology]\nqueriers = 1\n",
        encoding="ascii",
    )
    words = ["run", str(experiment), "-o", str(tmp_path / "results"), "--set", f"trace={minute}"]
    done = command.run(*words, "--set", f"server.zone={tmp_path}/zones/root.zone", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "results").iterdir()
    compared = command.run("compare", str(run), cwd=tmp_path)
    assert compared.returncode == 0, compared.stderr
    result = json.loads((run / "compare.json").read_text())
    assert result["compared"] > 9_000
    assert result["rcode_equal"]["share"] > 0.99, result["classes"]

"""Fronts on the hosts of an inventory: all clients come in by the server's one interface, and the host is
left as it was.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.site_test import EXPERIMENT, GROUPS, run_of, states, summary
from tests.testbed_hosts import opened

pytestmark = [pytest.mark.netns, pytest.mark.slow]


@pytest.mark.parametrize("front", ["bpf", "reference"])
@pytest.mark.parametrize("with_systemd", [(), ("dns",)], ids=["plain", "systemd"])
def test_a_front_on_a_host_serves_all_clients_and_leaves_nothing(
    tmp_path: Path, front: str, with_systemd: tuple[str, ...]
) -> None:
    (tmp_path / "site.toml").write_text(EXPERIMENT)
    settings = (f"server.front={front}", "replay.transport=stateless-tcp", "synth.duration=3")
    words = [word for one in settings for word in ("--set", one)]
    with opened(tmp_path / "bed", GROUPS, with_systemd=with_systemd) as hosts:
        before = states(hosts)
        done = hosts.run(
            "run", "site.toml", "--inventory", str(hosts.inventory), "-o", "far", *words, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        assert states(hosts) == before
    found = summary(run_of(tmp_path / "far"))
    assert found["clean"]
    assert found["queries"]["answered"] == found["queries"]["read"] == found["front"]["queries"] > 500
    assert found["transport"]["stateless-tcp"] == found["connections"]["opened"]
    told = json.loads((run_of(tmp_path / "far") / "front.json").read_text(encoding="utf-8"))
    assert (told["front"], told["interface"]) == (front, "exp0")
    assert found["cpu_s"]["front"] is not None

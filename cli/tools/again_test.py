"""The experiment of a run, with the queries that are asked again."""

import json
from pathlib import Path

from cli import programs
from cli.experiment import experiment as experiments
from cli.tools.again import changed

QUICKSTART = programs.ROOT / "experiments/quickstart.toml"


def test_servers_stay_and_the_choice_of_queries_goes() -> None:
    settings = ["server.kind=bind", "server.edns_size=1232", "replay.transport=tls", "replay.until=5"]
    settings += ["replay.speed=2", "replay.timeout_s=3", "repeat.n=3", 'sweep.server.kind=["nsd", "bind"]']
    given = experiments.load(QUICKSTART, settings)
    tables = json.loads(json.dumps(experiments.as_dict(given)))
    made = changed(tables, Path("/queries.tsv"), Path("/run/zone.gz"))
    assert (made.name, made.trace, made.synth, made.repeat, made.sweep) == (
        "again-quickstart", "/queries.tsv", None, None, None
    )  # fmt: skip
    assert (made.server.kind, made.server.edns_size, made.server.zone) == ("bind", 1232, "/run/zone.gz")
    replay = made.replay
    assert (replay.transport, replay.timeout_s, replay.answers) == ("tls", 3, True)
    assert (replay.until, replay.speed, replay.rate) == ("", 1, 1000)


def test_faults_go_and_a_kept_zone_takes_the_place_of_what_it_was_made_of() -> None:
    given = experiments.load(QUICKSTART, [])
    tables = json.loads(json.dumps(experiments.as_dict(given)))
    tables["fault"] = [{"at": 60, "target": "server", "restart": True}]
    del tables["server"]["root_like"]
    tables["server"] |= {"capture": "/c.pcap", "origin": "."}
    made = changed(tables, Path("/queries.tsv"), Path("/run/zone.gz"))
    assert (made.fault, made.server.zone, made.server.capture) == ((), "/run/zone.gz", None)
    del tables["server"]["capture"], tables["server"]["origin"]
    tables["server"]["wildcard"] = {"zones": 3}
    assert changed(tables, Path("/queries.tsv"), Path("/run/zone.gz")).server.zone is None


def test_runs_of_older_versions_are_asked_again() -> None:
    """What is left out of a server that runs already was not heeded then, or is of a process that is gone."""
    of_hierarchy = ["server.kind=hierarchy", "server.root_like=", "hierarchy.synth.zones=9", "synth.names=x"]
    given = experiments.load(QUICKSTART, of_hierarchy)
    tables = json.loads(json.dumps(experiments.as_dict(given)))
    tables["hierarchy"]["form"] = "coloured"
    tables["hierarchy"]["qname_minimisation"] = not tables["hierarchy"].pop("qname_minimization")
    made = changed(tables, Path("/queries.tsv"), None)
    assert made.hierarchy is not None
    assert (made.hierarchy.form, made.hierarchy.qname_minimization) == ("colored", False)
    own = ["server.kind=address", "server.root_like=", 'server.addresses=["127.0.0.1"]', "server.pid=1"]
    given = experiments.load(QUICKSTART, [*own, "server.edns_size="])
    tables = json.loads(json.dumps(experiments.as_dict(given)))
    tables["server"] |= {"processes": 4, "edns_size": 1232}
    tables["sample"]["capture"] = True
    server = changed(tables, Path("/queries.tsv"), None).server
    assert (server.kind, server.addresses, server.pid, server.processes) == (
        "address",
        ("127.0.0.1",),
        None,
        1,
    )


def test_what_rules_sent_over_tls_finds_it_served() -> None:
    rule = 'mutate.rule=[{kind = "transport", to = "tls"}]'
    given = experiments.load(QUICKSTART, [rule])
    assert given.over_tls and given.tls is None
    made = changed(json.loads(json.dumps(experiments.as_dict(given))), Path("/queries.tsv"), None)
    assert made.over_tls and made.mutate is None

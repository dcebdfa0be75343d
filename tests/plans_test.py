"""Plans of all experiments that come with Reprise, of their variants, and of some with other settings: what
holds for each of them, and each as a transcript in tests/plans/, written by REPRISE_WRITE_TRANSCRIPTS=1.

A transcript has what differs from the plan of another experiment, and for variants from the most similar plan
before it.
"""

import contextlib
import dataclasses
import difflib
import itertools
import json
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cli import programs
from cli.errors import UsageError
from cli.experiment import tables
from cli.experiment.experiment import load
from cli.experiment.schema import Experiment
from cli.plan import planned
from cli.plan.network import Network
from cli.plan.plan import as_json, make
from cli.plan.planned import HostStep, Management, Plan, Process, Step
from cli.tools import series
from tests import facts

_FOLDER = programs.ROOT / "tests/plans"
_OURS = programs.ROOT / "experiments"
_FILES = sorted((*_OURS.glob("*.toml"), *(_OURS / "papers").glob("*.toml")))
EXPERIMENTS = {path.stem: path for path in _FILES if "server" in tables.read(path)}
FACTS = dataclasses.replace(facts.FACTS, user="nobody", user_group=65534, zone_cache="/cache")
_NODES = ("topology.clients=2", 'hierarchy.resolver=["bind", "bind"]')
FEWER = {  # hosts and zones than the experiment has, of which one is as the other
    "codns-21": _NODES,
    "codns-22": (
        *_NODES,
        "fault=[{at=21,for=3,loss=0.5,servers=[1]},{at=33,for=0.5,target='server',stall=true,servers=[1]}]",
    ),
    "cooperative": _NODES,
    "statelesstcp-4-6": ("topology.clients=2",),
    "statelesstcp-7": ("topology.clients=2",),
    "statelesstcp-table-1": ("topology.clients=2",),
    "ldplayer-what-if-zones": ("server.wildcard.zones=3",),
}
BESIDE = {  # others are beside `root-live` or `hierarchy`
    "quickstart": "",
    "root-live": "quickstart",
    "hierarchy": "quickstart",
    "codns-21": "cooperative",
    "codns-22": "codns-21",
    "statelesstcp-7": "statelesstcp-4-6",
    "statelesstcp-table-1": "statelesstcp-4-6",
}
CASES: dict[str, tuple[str, ...]] = {
    "quickstart": (
        "trace=/t.pcap server.zone=/z",
        "trace=/t.pcap server.capture=/c.pcap server.origin=org. replay.answers=true",
        "server.kind=command server.command=mydns {port} {zone} {address}",
        "server.kind=address server.addresses=['127.0.0.1','::1'] server.port=5300",
        "server.kind=address server.addresses=127.0.0.1 server.port=5300 replay.transport=tcp",
        "server.kind=address server.addresses=127.0.0.1 replay.transport=tls tls.resume=true "
        "tls.early_data=true tls.version=1.3",
        "topology.clients=3",
        "replay.source_mode=addresses",
        "replay.source_mode=packet",
        "replay.hedge_ms=20 replay.peers=['198.19.255.54','[fd00:198:19:ff::54]:53'] replay.cpus=1",
        "mutate.rules=/r.toml mutate.seed=7 mutate.rule=[{kind='edns',do=true,where={type=['A','AAAA']}}]",
        "mutate.keep=true mutate.rule=[{kind='transport',to='tls'}]",
        "server.front=dnsdist",
    ),
    "all-tls": (
        "server.kind=bind sample.capture=true",
        "tls.port=8853 tls.name=x.test tls.verify=false tls.ca=/ca",
    ),
    "ldplayer-12-14": (
        "rtt.rtt_ms=12.5 rtt.seed=7 rtt.realtime=true",
        "rtt.rtt_ms= rtt.table=/t rtt.jitter_ms=2 rtt.loss_percent=0.5",
        "rtt.rtt_ms= rtt.observed=/o",
        "rtt.by=source rtt.rtt_ms=9 replay.source_mode=addresses mutate.rule=[{kind='edns',do=true}]",
        "replay.transport=tls tls.port=8853",
    ),
    "stateless-tcp": (
        "front.timeout_ms=500 front.early_ack=true front.axfr_detect=false front.promote=false",
        "front.entries=100 front.truncate_udp=512 server.port=5353",
        "server.front=reference front.early_ack=false front.axfr_detect=true front.loglevel=0",
        "server.front=reference front.fin_last=true",
        "replay.transport=tcp",
    ),
    "hierarchy": (
        "hierarchy.cache=warm mutate.rules=/r.toml",
        "hierarchy.data_path=nft hierarchy.form=paper",
        "hierarchy.engine=nsd hierarchy.instances=2",
        "hierarchy.zones=/z;`x`",
        "hierarchy.expired_signatures=accept",
        "hierarchy.expired_signatures=keep",
        "hierarchy.validate=false",
    ),
    "ldplayer-recursive": ("hierarchy.resolver=unbound hierarchy.expired_signatures=accept",),
    "cooperative": (
        "hierarchy.resolver=['bind','pdns-recursor','unbound'] topology.clients=4 "
        "replay.peers=['198.19.255.54','198.19.255.55']",
    ),
}  # fmt: skip


def planned_of(experiment: Experiment, management: Management | None = None) -> Plan:
    wild = experiment.server.wildcard
    return make(experiment, dataclasses.replace(FACTS, origin=wild.origin if wild else "."), management)


@cache
def experiments(name: str) -> dict[str, Experiment]:
    """The experiment, its variants and its other cases, by what is set."""
    path, fewer = EXPERIMENTS[name], FEWER.get(name, ())
    swept = [series.words_of(each) for each in series.variants(load(path, []))]
    # A variant that reads files of an earlier one has its folder.
    given = [[re.sub(r"=@(\d+)/", r"=/run-\1/", one) for one in each] + [*fewer] for each in swept if each]
    given += [[*fewer, *re.split(r" (?=[a-z._]+=)", each)] for each in CASES.get(name, ())]
    found = {"as it is": [*fewer]} | {
        " ".join(one for one in each if one not in fewer): each for each in given
    }
    return {title: load(path, [*each, *series.ALONE]) for title, each in found.items()}


@cache
def plans(name: str) -> dict[str, Plan]:
    return {title: planned_of(one) for title, one in experiments(name).items()}


# --- as text ----------------------------------------------------------------------------------------------


def _lines(argv: tuple[str, ...]) -> list[str]:
    """A command line, each long option on a line of its own; in front what gives a program its rights."""
    begin = len(argv) - argv[::-1].index("--") if "--" in argv else 0
    found = [" ".join(argv[:begin])] * bool(begin)
    for at, word in enumerate(argv[begin:]):
        if at == 0 or word.startswith("--"):
            found.append(("  " if at else "") + _word(word))
        else:
            found[-1] += f" {_word(word)}"
    return found


def _word(value: Any) -> str:
    if dataclasses.is_dataclass(value):
        return " ".join(f"{one.name}={_word(getattr(value, one.name))}" for one in _changed(value))
    plain = isinstance(value, str) and value.isprintable() and value.strip() == value != ""
    return str(value) if plain else json.dumps(value, ensure_ascii=False)


def _changed(value: Any) -> Iterator[dataclasses.Field[Any]]:
    """The fields that do not just have their defaults."""
    for one in dataclasses.fields(value):
        usual = one.default_factory() if one.default_factory is not dataclasses.MISSING else one.default
        if getattr(value, one.name) != usual:
            yield one


def _block(value: Any, *left_out: str) -> list[str]:
    """A value's fields, one a line; command lines and texts have several."""
    found: list[str] = []
    for name in (one.name for one in _changed(value) if one.name not in left_out):
        held = getattr(value, name)
        if name == "argv":
            found += _lines(held)
        elif name == "content":
            found += [f"| {line}".rstrip() for line in held.splitlines()]
        elif name in ("apply", "undo"):
            found += [f"{name}: {' '.join(map(_word, argv))}" for argv in held]
        elif name in ("begin", "end"):
            found += [f"{name} on {one.host}: {line}" for one in held for line in _block(one, "id", "host")]
        else:
            found.append(f"{name.rstrip('_')}: {_word(held)}")
    return found


def _network(network: Network) -> list[str]:
    found = [network.kind]
    for name in ("links", "addresses", "routes", "rules", "neighbors"):
        for one in getattr(network, name):
            values = [",".join(held) if isinstance(held, tuple) else str(held) for held in vars(one).values()]
            found.append(f"{name}: {' '.join(filter(None, values))}")
    for host, keys in itertools.groupby(network.sysctls, lambda one: one.host):
        found.append(f"sysctls: {host} {' '.join(f'{one.key}={one.value}' for one in keys)}")
    return found


def blocks(plan: Plan) -> dict[str, list[str]]:
    """The plan as text by its parts."""
    named: dict[str, tuple[Step | HostStep | Process, ...]] = {
        "step": plan.prepare, "setup": plan.setup, "process": plan.processes, "begin": plan.begin,
        "finish": plan.finish,
    }  # fmt: skip
    return {
        "network": _network(plan.network),
        "folders": [_word(one) for one in plan.folders],
        **{f"file {one.path}": _block(one, "path") for one in plan.files},
        "order": [" ".join([f"{kind}:", *(one.id for one in each)]) for kind, each in named.items()],
        **{
            f"{kind} {one.id}{' on ' if one.host else ''}{one.host}": _block(one, "id", "host")
            for kind, each in named.items()
            for one in each
        },
        **{f"fault {number}": _block(one) for number, one in enumerate(plan.faults, 1)},
        "checks": [
            _word([Path(_program(one.argv)).name, one.argv[-1], *one.keys[:1]]) for one in plan.checks
        ],
        "figures": [_word(one) for one in plan.figures],
        "warnings": list(plan.warnings),
        "main": [plan.main, plan.user, _word(plan.private)],
    }


def _program(argv: tuple[str, ...]) -> str:
    """That of a command line, behind those that start it."""
    return next(one for one in argv if Path(one).name.startswith("reprise-"))


def beside(plan: dict[str, list[str]], other: dict[str, list[str]]) -> list[str]:
    """What the plan has otherwise than the other; what is new beside its like of another number."""
    found: list[str] = []
    for name in dict.fromkeys((*other, *plan)):
        like = next(one for one in (*plan, name) if re.sub(r"\d+", "", one) == re.sub(r"\d+", "", name))
        if name not in plan:
            found.append(f"- {name}")
        elif name in other:
            changes = _changes(other[name], plan[name])
            found += [f"  {name}", *changes] if changes else []
        elif like == name:
            found += [f"+ {name}", *_changes([], plan[name])]
        else:
            found += [f"+ {name}, as {like}", *_changes(_renamed(plan[like], like, name), plan[name])]
    return found


def _renamed(lines: list[str], like: str, name: str) -> list[str]:
    """The lines with what is another word in the other name."""
    words = zip(*(re.findall(r"[a-z]+-?\d*", one) for one in (like, name)), strict=True)
    old, new = next(((old, new) for old, new in words if old != new), ("nothing", ""))
    return [re.sub(rf"\b{old}\b", new, line) for line in lines]


def _changes(before: list[str], after: list[str]) -> list[str]:
    changes = itertools.islice(difflib.unified_diff(before, after, n=0), 2, None)
    return [f"{one[0]}   {one[1:]}" for one in changes if one[0] != "@"]


def transcript(name: str) -> str:
    """The plans of an experiment, each beside the most similar one before it."""
    made = {title: blocks(plan) for title, plan in plans(name).items()}
    emulated = experiments(name)["as it is"].emulated
    base = BESIDE.get(name, "hierarchy" if emulated else "root-live")
    before = {base: blocks(plans(base)["as it is"])} if base else {"nothing": {}}
    text: list[str] = []
    for title, plan in made.items():
        found = {other: beside(plan, each) for other, each in before.items()}
        nearest = min(found, key=lambda other: len(found[other]))
        text += [f"== {title}, beside {nearest}", *found[nearest]]
        before = {**(before if title != "as it is" else {}), title: plan}
    return "\n".join(text).replace(str(programs.ROOT), "@root@") + "\n"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_plans_are_as_written(name: str) -> None:
    path, told = _FOLDER / f"{name}.txt", transcript(name)
    if os.environ.get("REPRISE_WRITE_TRANSCRIPTS"):
        path.write_text(told, encoding="utf-8")
    assert told == path.read_text(encoding="utf-8")


def test_every_transcript_belongs_to_an_experiment() -> None:
    assert {path.stem for path in _FOLDER.glob("*.txt")} == set(EXPERIMENTS)


# --- what holds for every plan ----------------------------------------------------------------------------

_NAMES = [
    f"{role}{number or ''}" for role in ("controller", "client", "server", "meta") for number in range(4)
]
HOSTS = Management(("192.0.2.0/24",), interfaces=dict.fromkeys(_NAMES, "exp0"))


def _on_hosts(name: str) -> Iterator[Plan]:
    """The plans for machines of their own, where there may be any."""
    for one in experiments(name).values():
        with contextlib.suppress(UsageError):
            yield planned_of(one, HOSTS)


@cache
def every(name: str) -> tuple[Plan, ...]:
    return (*plans(name).values(), *_on_hosts(name))


def _commands(plan: Plan) -> Iterator[tuple[str, ...]]:
    yield from (one.argv for one in plan.prepare)
    yield from (one.argv for one in plan.processes)
    yield from (argv for one in (*plan.setup, *plan.later) for argv in (*one.apply, *one.undo))


def test_hosts_may_be_machines_of_their_own() -> None:
    """But where packets to anyone's address take the way of the experiment."""
    never = [name for name in EXPERIMENTS if not any(_on_hosts(name))]
    assert {experiments(name)["as it is"].replay.source_mode for name in never} == {"addresses"}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_everything_comes_after_what_it_needs(name: str) -> None:
    for plan in every(name):
        names = [one.id for one in plan.processes]
        for index, process in enumerate(plan.processes):
            assert set(process.after) <= set(names[:index])
        assert plan.main == names[-1]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_hosts_exist_and_no_route_leads_out(name: str) -> None:
    for plan in every(name):
        net = plan.network
        hosts = {host.name for host in net.hosts}
        used = {one.host for one in plan.processes} | {one.host for one in (*plan.setup, *plan.later)}
        assert net.kind == "host" or used <= hosts
        ends = [(*one.a_addresses, *one.b_addresses) for one in net.links]
        known = {end.partition("/")[0] for each in ends for end in each}
        ways = [one for one in net.routes if not one.kind and one.interface != "outside"]
        assert {one.via for one in ways} <= known
        macs = {mac for one in net.links for mac in (one.a_mac, one.b_mac)}
        assert {one.mac for one in net.neighbors} <= macs
        if net.kind == "hosts":  # which have a way out of their own
            assert not [one for one in net.routes if one.interface == "outside"]
            assert not [one for one in net.routes if one.to.endswith("/0")]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_no_path_stands_in_a_shells_line(name: str) -> None:
    commands = [argv for plan in every(name) for argv in _commands(plan)]
    lines = [argv[argv.index("-c") + 1] for argv in commands if "sh" in argv]
    assert lines and not [line for line in lines if "@r" in line or "/z" in line]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_programs_have_the_same_rights_whatever_they_start(name: str) -> None:
    for argv in (argv for plan in every(name) for argv in _commands(plan) if "/bin/setpriv" in argv):
        assert "--no-new-privs" in argv
        given = {argv[argv.index(f"--{kind}") + 1] for kind in ("bounding-set", "inh-caps", "ambient-caps")}
        assert len(given) == 1


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_plans_are_read_back_from_their_json(name: str) -> None:
    for plan in every(name):
        assert planned.read(json.loads(json.dumps(as_json(plan)))) == plan

"""`reprise zones plan`: the planner's output made complete for the hosts of a hierarchy.

The planner decides which zones answer together and writes views, zone stanzas and the address map. Here
the servers' configurations around those, the rulesets of the second data path and the batches of addresses
and routes are added: what depends on hosts and not on zones.

In a run the planner's user is nobody. Then root makes its own files of what he wrote (`serve`), whose every
part has to have the one form that it needs (see zone_plan.py): root obeys these files, and none of his.
"""

import argparse
import ipaddress
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cli import linux, programs
from cli.errors import EXIT_FAILED, RepriseError, want
from cli.servers import meta_servers, nftables
from cli.servers.kinds import KINDS
from cli.servers.meta_servers import MetaSite
from cli.servers.nftables import Pair
from cli.zones import bind_tools, zone_check, zone_folder, zone_plan
from cli.zones.zone_folder import Entry
from cli.zones.zone_plan import AddressMap

_FOLDER = "/var/tmp"  # where servers run that nobody starts yet


def command_plan(options: argparse.Namespace) -> int:
    rebuilt = (options.zones / "build.json").is_file()  # from captures, which have gaps: warn only
    options.zones = zone_folder.plain(options.zones, options.output / "zones", options.skip_bad)
    zones_path = str(options.zones_path or options.zones.absolute())
    nsd = options.engine == "nsd"  # which takes % for a pattern
    bad = any(one in '"\\' or one < " " or (nsd and one == "%") for one in zones_path)
    what = f"--zones-path has a quote, a backslash{', a %' if nsd else ''} or a control character"
    want(not bad, what, "use a folder without")
    status = _plan(options)
    if status != 0:
        return status
    out: Path = options.output.absolute()
    if options.need_root and " NS " not in (out / "root.hints").read_text(encoding="ascii"):
        raise RepriseError("there is no root zone among the zones", "add one: resolvers start there")
    report = zone_plan.read_report(out / "plan.json")
    refused = [one for one in options.refuse_signatures if one != "missing" or not rebuilt]
    zone_plan.check_signatures(report, refused, time.time())
    meta = (options.meta4, options.meta6)
    site = MetaSite(_FOLDER, str(out), "", options.edns_size, not options.full_responses, prefixes=meta)
    _write_texts(site, options.engine, out, zones_path)
    if options.warnings is not None:
        lines = "".join(f"{one}\n" for one in (*zone_plan.warnings(report), *bind_tools.told))
        options.warnings.write_text(lines, encoding="utf-8")
    sys.stdout.write(zone_plan.summary(report, time.time()))
    return 0


def serve(
    zones: Path,
    made: Path,
    out: Path,
    engine: str = "bind",
    edns_size: int = 4096,
    minimal: bool = False,
    folder: str = _FOLDER,
    user: str = "",
    descriptors: int = 20_000,
    versions: list[str] | None = None,
    hops: list[list[Any]] | None = None,
) -> None:
    """Makes root's files in `out` from what the planner wrote in `made`; a step of the plan. `hops`: the
    numbers of a resolver and an instance, and the addresses of the latter's end of the link between them.
    """
    site = MetaSite(folder, str(out), user, edns_size, minimal, descriptors, versions=tuple(versions or ()))
    written = made / "zones"
    _write_texts(site, engine, made, str(written if written.is_dir() else zones), hops or ())


def _write_texts(
    site: MetaSite, engine: str, made: Path, zones_path: str, hops: Sequence[Sequence[Any]] = ()
) -> None:
    """Makes the hosts' files in the site's plan folder, from what the planner wrote in `made`."""
    out = Path(site.plan)
    for former in out.iterdir():  # a plan with fewer instances must not leave views of a former one
        if re.fullmatch(r"(views|nsd)-\d+\.conf", former.name):
            former.unlink()
    try:
        report = zone_plan.read_report(made / "plan.json")
        found = zone_plan.read_map(made / "map.tsv")
        key = zone_plan.read_records(made / "root.key")
        versions = site.versions or (KINDS[engine].version(),) * max(found.instances)
        loaded = zone_texts(report, found, zones_path)
        texts = dict(_texts(found, replace(site, versions=versions), loaded, hops))
        texts["root.anchors"] = meta_servers.bind_anchors(key)
        if made != out:
            texts["root.hints"] = zone_plan.read_records(made / "root.hints")
            texts |= {"root.key": key, "map.tsv": found.text()}
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RepriseError(f"{made}/plan.json is broken: {error!r}", "plan the zones again") from None
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")


def _plan(options: argparse.Namespace) -> int:
    """The planner's own work. It gets a list of zones that it can read but BIND does not load: it refuses
    these like those that it cannot read, or leaves them out.
    """
    status, said = _planner(options)
    # NSD is not asked: it reports such zones when it starts.
    if status == 0 and options.engine == "bind" and programs.find("named-checkconf") is not None:
        report = zone_plan.read_report(options.output / "plan.json")
        served = {pair for slot in report["slots"] for pair in zip(slot["names"], slot["files"], strict=True)}
        bad = zone_check.refused(options.zones, (Entry(*pair) for pair in sorted(served)))
        if bad:
            with tempfile.NamedTemporaryFile("w", prefix="reprise-refused-", encoding="utf-8") as file:
                json.dump([one.as_json() for one in bad], file)
                file.flush()
                status, said = _planner(options, "--refused", file.name)
    sys.stdout.write(said)
    return status


def _planner(options: argparse.Namespace, *more: str) -> tuple[int, str]:
    """The planner's exit status and its summary; its error line is the user's."""
    argv = [programs.own("reprise-zonebuilder"), "plan", str(options.zones), "-o", str(options.output), *more]
    names = ("engine", "form", "instances", "meta4", "meta6", "no_historic_roots", "resolver", "reserved")
    argv += programs.flags(**{name: getattr(options, name) for name in (*names, "skip_bad")})
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode < 0:
        how = linux.describe_exit(done.returncode)
        raise RepriseError(f"the planner was ended by {how}", "free some memory")
    return done.returncode if done.returncode in (0, 2) else EXIT_FAILED, done.stdout


def zone_texts(report: dict[str, Any], found: AddressMap, zones_path: str) -> dict[str, str]:
    """Files that tell servers what to load: names and texts."""
    match report["engine"]:
        case "bind":
            views = {one: zone_plan.views(report, found, zones_path, one) for one in found.instances}
            return {f"views-{one}.conf": meta_servers.bind_views(made) for one, made in views.items()}
        case "nsd":
            slots = {int(one["slot"]): one for one in report["slots"]}
            zones = {slot: zone_plan.zones_of(one, "names", zones_path) for slot, one in slots.items()}
            return {f"nsd-{slot}.conf": meta_servers.nsd_zones(held) for slot, held in zones.items()}
    raise ValueError(report["engine"])


def _texts(
    found: AddressMap, site: MetaSite, loaded: dict[str, str], hops: Sequence[Sequence[Any]]
) -> Iterator[tuple[str, str]]:
    """Names and texts of all files that are added."""
    sink = sink_of(*site.prefixes)
    for resolver in found.resolvers:
        yield f"nft-resolver-{resolver}.nft", nftables.resolver_ruleset(found.toward(resolver), sink)
        yield f"resolver-{resolver}.ip", routes(found, resolver, hops)
    for instance in found.instances:
        metas = found.of_instance(instance)
        answers = [[one.address for one in metas if one.resolver == resolver] for resolver in found.resolvers]
        yield f"nft-meta-{instance}.nft", nftables.meta_ruleset(list(found.resolvers.values()), answers, sink)
        yield f"meta-{instance}.ip", addresses(found, instance)
        if views := loaded.get(f"views-{instance}.conf"):
            yield f"views-{instance}.conf", views
            yield f"named-{instance}.conf", meta_servers.named(site, instance)
            continue
        slots = sorted({one.slot for one in metas})
        yield f"nsd-{instance}.list", "".join(f"{site.plan}/nsd-{slot}.conf\n" for slot in slots)
        for slot in slots:
            own = [one.address for one in metas if one.slot == slot]
            yield f"nsd-{slot}.conf", meta_servers.nsd(site, instance, slot, own) + loaded[f"nsd-{slot}.conf"]


def sink_of(meta4: str, meta6: str) -> Pair:
    """The last addresses of the prefixes: nobody has them."""
    return Pair(*(str(ipaddress.ip_network(prefix, strict=False)[-1]) for prefix in (meta4, meta6)))


def addresses(found: AddressMap, instance: int) -> str:
    """`ip -batch` lines: an instance's host has all its meta addresses; they may be there already."""
    ways = ("/32 dev lo", "/128 dev lo nodad")
    held = (pair for one in found.of_instance(instance) for pair in zip(one.address, ways, strict=True))
    return "".join(f"addr replace {address}{way}\n" for address, way in held)


def routes(found: AddressMap, resolver: int, hops: Sequence[Sequence[Any]]) -> str:
    """`ip -batch` lines: from a resolver's host to each meta address by the link to its instance."""
    lines = []
    for _, instance, *ends in (one for one in hops if one[0] == resolver):
        for meta in (one for one in found.of_instance(instance) if one.resolver == resolver):
            for via in ends:
                address, bits = (meta.address.v6, 128) if ":" in via else (meta.address.v4, 32)
                lines.append(f"route replace {address}/{bits} via {via}")
    return "".join(f"{line}\n" for line in lines)

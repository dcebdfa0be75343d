"""`reprise inventory`: an inventory for `reprise run --inventory` from what a testbed says of its nodes."""

from __future__ import annotations

import argparse
from pathlib import Path

from cli.errors import want
from cli.hosts import testbeds
from cli.hosts.testbeds import GROUPS, LAN


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("inventory", help="write the inventory of a testbed, for run --inventory")
    testbeds = parser.add_subparsers(dest="testbed", required=True, metavar="TESTBED")
    lab = testbeds.add_parser("cloudlab", help="from the manifest of an experiment on CloudLab")
    lab.add_argument("manifest", type=Path, metavar="MANIFEST.xml", help="saved from CloudLab's portal")
    lab.add_argument(
        "--user",
        default="",
        metavar="NAME",
        help="your user name on CloudLab (default: the only one in the manifest)",
    )
    merge = testbeds.add_parser("merge", help="from what `mrg nodes generate` prints, on SPHERE and others")
    merge.add_argument("groups", type=Path, metavar="INVENTORY", help="of `mrg nodes generate inventory`")
    merge.add_argument("etchosts", type=Path, metavar="ETCHOSTS", help="of `mrg nodes generate etchosts`")
    merge.add_argument("--user", required=True, metavar="NAME", help="your user name on the testbed")
    merge.add_argument(
        "--jump", default="", metavar="HOSTS", help="hosts on the way to the nodes, as for ssh -J"
    )
    merge.add_argument(
        "--lan",
        default=LAN,
        metavar="PREFIX",
        help=f"addresses of the experiment's LAN (default: {LAN})",
    )
    for one in (lab, merge):
        one.add_argument(
            "--management",
            action="append",
            default=[],
            metavar="PREFIX",
            help="a network, as ADDRESS/BITS, that hosts may reach during a run; repeatable",
        )
        one.add_argument(
            "-o", "--output", type=Path, required=True, metavar="FILE", help="inventory to write"
        )


def command_inventory(options: argparse.Namespace) -> int:
    output: Path = options.output
    there = output.absolute().parent.is_dir()
    want(there, f"{output}: its folder is not there", "make it, or give another -o")
    want(not output.is_dir(), f"{output} is a folder", "give the inventory's name with -o")
    if options.testbed == "cloudlab":
        nodes, user = testbeds.of_cloudlab(options.manifest, options.user)
        shared = testbeds.variables(user, options.management)
    else:
        nodes = testbeds.of_merge(options.groups, options.etchosts, options.lan)
        shared = testbeds.variables(options.user, options.management, options.jump)
    output.write_text(testbeds.text(nodes, shared), encoding="utf-8")
    counts = [f"{group} {sum(one.group == group for one in nodes)}" for group in GROUPS.values()]
    print(f"{output}: {', '.join(counts)}")
    return 0

"""Options of commands whose own modules take long to load."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("zones", type=Path, metavar="DIR", help="folder that `reprise zones build` wrote")
    parser.add_argument("captures", nargs="+", metavar="CAPTURE", help="captures whose questions are asked")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures and differences to FILE")
    parser.add_argument(
        "--port", action="append", default=[], metavar="N", help="port of name servers; may be repeated (53)"
    )
    parser.add_argument(
        "--least",
        type=float,
        metavar="SHARE",
        help="exit with status 1 if a smaller share is as recorded (0 to 1)",
    )


def add_harvest(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Resolves each name and type of a trace once by a BIND with an empty cache, plus the records a "
        "hierarchy needs, and saves the name servers' responses for `reprise zones build`. This queries name "
        "servers of the Internet. If interrupted, run it again to resume."
    )
    parser.add_argument("traces", nargs="+", metavar="TRACE", help="traces of any form that Reprise reads")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write")
    parser.add_argument("--rate", type=float, default=10.0, metavar="N", help="questions a second (10)")
    parser.add_argument(
        "--limit", type=int, default=100_000, metavar="N", help="maximum number of questions (100000)"
    )
    parser.add_argument(
        "--depth",
        type=int,
        default=8,
        metavar="N",
        help="maximum steps from a name of the trace: its zone's servers, their zones' servers and so on (8)",
    )
    parser.add_argument(
        "--duration-s", type=float, default=86_400.0, metavar="S", help="maximum duration in seconds (86400)"
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="PREFIX",
        help="query name servers in this prefix even if it is for special purposes; may be repeated",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask for consent")
    parser.add_argument(
        "--port", action="append", default=[], metavar="N", help="DNS port in captures; may be repeated (53)"
    )

"""Steps and options of `reprise zones`, apart from what carries them out, which takes long to load."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cli.errors import want
from cli.experiment.addresses import META4, META6
from cli.zones import zone_plan
from cli.zones.world_model import Settings

ALGORITHMS = ("ed25519", "ecdsap256sha256", "ecdsap384sha384", "rsasha256", "rsasha512")
_FEWEST_BITS, _MOST_BITS = 1_024, 4_096


@dataclass(frozen=True)
class Policy:
    """How zones are signed."""

    algorithm: str = "ed25519"
    ksk_bits: int = 2_048
    zsk_bits: int = 2_048
    nsec3: bool = False
    signed_only: bool = False
    seed: int = 1


def policy_of(options: argparse.Namespace) -> Policy:
    """Raises UsageError where a size is out of range."""
    for name, bits in (("ksk", options.ksk_bits), ("zsk", options.zsk_bits)):
        fits = _FEWEST_BITS <= bits <= _MOST_BITS
        want(fits, f"--{name}-bits {bits}: out of range", f"give {_FEWEST_BITS} to {_MOST_BITS}")
    return Policy(**{one.name: getattr(options, one.name) for one in fields(Policy)})


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    zones = commands.add_parser("zones", help="the zones of an emulated hierarchy")
    steps = zones.add_subparsers(dest="step", required=True, metavar="STEP")
    _add_synth(steps.add_parser("synth", help="make a synthetic hierarchy from the root down"))
    _add_build(steps.add_parser("build", help="rebuild the hierarchy from captured answers"))
    _add_check(steps.add_parser("check", help="ask a rebuilt hierarchy the recorded questions"))
    _add_harvest(steps.add_parser("harvest", help="ask real name servers what a trace asks"))
    resign = steps.add_parser("resign", help="sign all zones of a folder with new keys")
    resign.add_argument("zones", type=Path, metavar="DIR", help="folder of zone files, and zones.json")
    _add_output(resign, "OUT")
    _add_policy(resign)
    _add_plan(steps.add_parser("plan", help="plan who serves them, and configure it"))


def _add_output(parser: argparse.ArgumentParser, metavar: str = "DIR") -> None:
    parser.add_argument("-o", "--output", type=Path, required=True, metavar=metavar, help="folder to write")


def _add_value(
    parser: argparse._ActionsContainer, name: str, default: str | float, text: str, **more: Any
) -> None:
    """An option with a value of the default's type, whose help ends with the default."""
    shown = default if isinstance(default, str) else f"{default:g}"
    parser.add_argument(name, type=type(default), default=default, help=f"{text} ({shown})", **more)


def _add_list(parser: argparse.ArgumentParser, name: str, metavar: str, text: str) -> None:
    parser.add_argument(name, action="append", default=[], metavar=metavar, help=text)


def _add_flag(parser: argparse._ActionsContainer, name: str, text: str) -> None:
    parser.add_argument(name, action="store_true", help=text)


def _add_synth(parser: argparse.ArgumentParser) -> None:
    _add_output(parser)
    _add_value(parser, "--zones", Settings.zones, "zones in all", metavar="N")
    _add_value(parser, "--seed", Settings.seed, "each seed makes another hierarchy", metavar="S")
    _add_flag(parser, "--signed", "with DNSSEC: chains of trust from the root, some insecure zones")


def _add_build(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Writes a file for each zone, zones.json (which addresses serve which) and build.json (what was "
        "chosen, dropped and made up, and why). `reprise zones plan` reads the folder. Exit status: 0 done; "
        "1 a capture is cut or cannot be read, or a zone does not load; 2 usage."
    )
    text = "captures of the traffic between resolvers and name servers, of any form that Reprise reads"
    parser.add_argument("captures", nargs="+", metavar="CAPTURE", help=text)
    _add_output(parser)
    text = "rebuild DIR from its earlier captures plus these; other options count for all of them"
    _add_flag(parser, "--add", text)
    text = "where answers changed, use those seen at TIME (RFC 3339, or seconds) instead of the first"
    parser.add_argument("--at", metavar="TIME", help=text)
    text = "keep: DNSSEC records as they were seen; strip: none; resign: sign all with new keys"
    _add_value(parser, "--dnssec", "keep", text, choices=("keep", "strip", "resign"))
    _add_flag(parser, "--skip-bad", "leave out zones that BIND does not load instead of failing")
    parser.add_argument("--warnings", type=Path, help=argparse.SUPPRESS)
    _add_list(parser, "--port", "N", "port of name servers; may be repeated (53)")
    _add_policy(parser.add_argument_group("with --dnssec resign"))


def _add_policy(parser: argparse._ActionsContainer) -> None:
    _add_value(parser, "--algorithm", Policy.algorithm, "key algorithm", choices=ALGORITHMS)
    for role, bits in (("ksk", Policy.ksk_bits), ("zsk", Policy.zsk_bits)):
        text = f"size of RSA {role.upper()}s, {_FEWEST_BITS} to {_MOST_BITS}"
        _add_value(parser, f"--{role}-bits", bits, text, metavar="N")
    _add_flag(parser, "--nsec3", "use NSEC3 (no salt, no extra iterations) instead of NSEC")
    text = "leave unsigned zones unsigned, and add DS records only where the parent had one"
    _add_flag(parser, "--signed-only", text)
    _add_value(parser, "--seed", Policy.seed, "seed for Ed25519 keys", metavar="S")


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("zones", type=Path, metavar="DIR", help="folder that `reprise zones build` wrote")
    parser.add_argument("captures", nargs="+", metavar="CAPTURE", help="captures whose questions are asked")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures and differences to FILE")
    _add_list(parser, "--port", "N", "port of name servers; may be repeated (53)")
    text = "exit with status 1 if a smaller share is as recorded (0 to 1)"
    parser.add_argument("--least", type=float, metavar="SHARE", help=text)


def _add_harvest(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Resolves each name and type of a trace once by a BIND with an empty cache, plus the records a "
        "hierarchy needs, and saves the name servers' responses for `reprise zones build`. This queries name "
        "servers of the Internet. If interrupted, run it again to resume."
    )
    parser.add_argument("traces", nargs="+", metavar="TRACE", help="traces of any form that Reprise reads")
    _add_output(parser)
    _add_value(parser, "--rate", 10.0, "questions a second", metavar="N")
    _add_value(parser, "--limit", 100_000, "maximum number of questions", metavar="N")
    text = "maximum steps from a name of the trace: its zone's servers, their zones' servers and so on"
    _add_value(parser, "--depth", 8, text, metavar="N")
    _add_value(parser, "--duration-s", 86_400.0, "maximum duration in seconds", metavar="S")
    text = "query name servers in this prefix even if it is for special purposes; may be repeated"
    _add_list(parser, "--allow", "PREFIX", text)
    _add_flag(parser, "--yes", "do not ask for consent")
    _add_list(parser, "--port", "N", "DNS port in captures; may be repeated (53)")


def _add_plan(parser: argparse.ArgumentParser) -> None:
    """Most of these options are the planner's."""
    parser.add_argument("zones", type=Path, metavar="DIR", help="folder of zone files, and zones.json")
    _add_output(parser, "OUT")
    _add_value(parser, "--engine", "bind", "meta-DNS-server", choices=("bind", "nsd"))
    text = "who shares a view: what does not conflict, as in LDplayer's paper, or none"
    _add_value(parser, "--form", "colored", text, choices=("colored", "paper", "separate"))
    _add_value(parser, "--instances", 1, "meta-DNS-servers", metavar="N")
    _add_list(parser, "--resolver", "ADDR4[,ADDR6]", "who will ask, each")
    _add_list(parser, "--reserved", "PREFIX", "no server is there")
    for name, prefix in (("4", META4), ("6", META6)):
        _add_value(
            parser, f"--meta{name}", prefix, f"IPv{name} addresses of meta-DNS-servers", metavar="PREFIX"
        )
    parser.add_argument(
        "--zones-path", type=Path, metavar="PATH", help="where the servers find the zone files (DIR)"
    )
    _add_flag(parser, "--no-historic-roots", "only the root zone's own addresses lead to it")
    _add_flag(parser, "--skip-bad", "leave out zones that do not load")
    _add_value(parser, "--edns-size", 4096, "largest answer by UDP", metavar="N")
    _add_flag(parser, "--full-responses", "with what was not asked for too")
    parser.add_argument("--need-root", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--refuse-signatures", choices=zone_plan.UNSOUND, action="append", default=[], help=argparse.SUPPRESS
    )
    parser.add_argument("--warnings", type=Path, help=argparse.SUPPRESS)

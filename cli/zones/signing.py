"""How zones are signed: the policy, and its options on the command line."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from pathlib import Path

from cli.errors import want

ALGORITHMS = ("ed25519", "ecdsap256sha256", "ecdsap384sha384", "rsasha256", "rsasha512")
_FEWEST_BITS, _MOST_BITS = 1_024, 4_096


@dataclass(frozen=True)
class Policy:
    algorithm: str = "ed25519"
    ksk_bits: int = 2_048
    zsk_bits: int = 2_048
    nsec3: bool = False
    signed_only: bool = False
    seed: int = 1

    def check(self) -> Policy:
        """Itself. Raises UsageError where a size is out of range."""
        for name, bits in (("ksk", self.ksk_bits), ("zsk", self.zsk_bits)):
            want(
                _FEWEST_BITS <= bits <= _MOST_BITS,
                f"--{name}-bits {bits}: out of range",
                f"give {_FEWEST_BITS} to {_MOST_BITS}",
            )
        return self

    @property
    def denial(self) -> tuple[str, ...]:
        """Options of dnssec-signzone; no salt and no iterations (RFC 9276)."""
        return ("-3", "-", "-H", "0") if self.nsec3 else ()


def add_policy_options(parser: argparse._ActionsContainer) -> None:
    default = Policy()
    parser.add_argument(
        "--algorithm",
        choices=ALGORITHMS,
        default=default.algorithm,
        help=f"key algorithm ({default.algorithm})",
    )
    for role, bits in (("ksk", default.ksk_bits), ("zsk", default.zsk_bits)):
        parser.add_argument(
            f"--{role}-bits",
            type=int,
            default=bits,
            metavar="N",
            help=f"size of RSA {role.upper()}s, {_FEWEST_BITS} to {_MOST_BITS} ({bits})",
        )
    parser.add_argument(
        "--nsec3", action="store_true", help="use NSEC3 (no salt, no extra iterations) instead of NSEC"
    )
    parser.add_argument(
        "--signed-only",
        action="store_true",
        help="leave unsigned zones unsigned, and add DS records only where the parent had one",
    )
    parser.add_argument(
        "--seed", type=int, default=default.seed, metavar="S", help=f"seed for Ed25519 keys ({default.seed})"
    )


def policy_of(options: argparse.Namespace) -> Policy:
    return Policy(**{one.name: getattr(options, one.name) for one in fields(Policy)}).check()


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("zones", type=Path, metavar="DIR", help="folder of zone files, and zones.json")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="folder to write")
    add_policy_options(parser)

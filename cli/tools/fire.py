"""`reprise fire --server ADDRESS --trace FILE`: a trace sent from this machine to a server that runs already.

It is an experiment, made of the options, and run as any other: its results are those of `reprise run`.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
from collections.abc import Iterator
from pathlib import Path

from cli import run_name
from cli.errors import UsageError
from report.transports import SERVED, TRANSPORTS

# How hints name what the options give.
_OPTIONS = {"set server.allow_public = true": "give --allow-public", " with --set trace=FILE": ""}
_KEYS = (  # of the experiment, which options give that are called by the last word, without its unit
    *("replay.rate", "replay.speed", "replay.transport", "replay.duration_s", "replay.limit", "replay.loop"),
    *("replay.timeout_s", "replay.fast", "replay.answers", "server.allow_public"),
)
EXPERIMENT = Path(__file__).with_name("fire.toml")


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "fire",
        help="send a trace to a server that is already running; no experiment file needed",
        description="Replays a trace from this machine against a server that runs already, and reports as "
        "`reprise run` does. Queries keep the trace's times and transports unless told otherwise.",
    )
    parser.add_argument(
        "--server",
        action="append",
        required=True,
        metavar="ADDRESS[:PORT]",
        help="the server; repeatable, for one address of IPv4 and one of IPv6 ([ADDRESS]:PORT)",
    )
    parser.add_argument("--trace", required=True, type=Path, metavar="FILE", help="a trace of any form")
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--rate", type=float, metavar="N", help="queries a second, evenly spaced")
    pace.add_argument("--speed", type=float, metavar="X", help="times the trace's speed")
    pace.add_argument("--fast", action="store_true", help="as fast as answers come")
    parser.add_argument("--transport", choices=[one.name for one in SERVED], help="for all queries")
    parser.add_argument("--duration", type=float, metavar="S", help="end after so many seconds")
    parser.add_argument("--limit", type=int, metavar="N", help="end after so many queries")
    parser.add_argument(
        "--loop", type=int, metavar="N", help="play the trace so many times; 0 = again and again"
    )
    parser.add_argument("--timeout", type=float, metavar="S", help="wait so long for an answer")
    parser.add_argument("--answers", action="store_true", help="keep the answers, for `reprise compare`")
    parser.add_argument(
        "--allow-public",
        action="store_true",
        help="the server's address may be public: ask who runs it first",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change a key of the experiment, too"
    )
    run_name.add_parent(parser)


def command_fire(options: argparse.Namespace) -> int:
    from cli.executor import run  # noqa: PLC0415 - slow to import
    from cli.tools import search  # noqa: PLC0415

    made = [f"{key}={value}" for key, value in _settings(options)]
    try:
        given = {"experiment": EXPERIMENT, "set": [*made, *options.set], "output": options.output}
        asked = argparse.Namespace(**given, resume=None, no_deploy=False, inventory=[])
        return search.command(asked, run.command_run)
    except UsageError as error:
        for key, option in _OPTIONS.items():
            error.hint = error.hint.replace(key, option)
        raise


def _settings(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    pairs = [_address(text) for text in options.server]
    ports = {port for _, port in pairs if port is not None}
    if len(ports) > 1:
        raise UsageError("--server has two ports", "give one")
    yield "server.addresses", json.dumps([address for address, _ in pairs])
    yield "trace", str(options.trace)
    for port in ports:
        over_tls = options.transport is not None and TRANSPORTS[options.transport].tls
        yield ("tls.port" if over_tls else "server.port"), str(port)
    for key in _KEYS:
        value = getattr(options, key.rpartition(".")[2].removesuffix("_s"))
        if value is not None and value is not False:
            yield key, "true" if value is True else str(value)


def _address(text: str) -> tuple[str, int | None]:
    """Address and port; None where none is given."""
    with_port = (text.startswith("[") and "]:" in text) or text.count(":") == 1
    host, _, port = text.rpartition(":") if with_port else (text, "", "")
    try:
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        address = ipaddress.ip_address(bare)
        return str(address), int(port) if port else None
    except ValueError:
        hint = "give it as numbers, such as 127.0.0.1:5353 or [::1]:5353"
        raise UsageError(f"--server {text} is no address", hint) from None

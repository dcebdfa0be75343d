"""What plans under test are made from: a machine that has every program."""

from cli.plan.planned import Facts
from cli.servers.kinds import STARTED

_OWN = ("controller", "querier", "mutator", "proxy", "sampler", "zonebuilder")
_OF_SERVERS = (
    one for kind in STARTED.values() for one in (kind.program, kind.checker, *kind.zone_checker[:1])
)
FACTS = Facts(
    run="x-1",
    cores=4,
    descriptors=20_000,
    python="/python",
    source_root="/src",
    programs={
        **{f"reprise-{name}": f"/bin/reprise-{name}" for name in _OWN},
        **{name: f"/bin/{name}" for name in ("tcpdump", "setpriv", "unshare", *_OF_SERVERS)},
    },
    users={kind.program: kind.user for kind in STARTED.values()},
)

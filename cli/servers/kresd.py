"""knot-resolver: its configuration as a resolver, and what its log complains of."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from cli.servers.kind import ResolverSite, ServerKind, talk

if TYPE_CHECKING:
    from cli.experiment.schema import Hierarchy, Server


def resolver(server: Server, emulated: Hierarchy, site: ResolverSite) -> str:
    """kresd.conf. Without its answers for special names; anchors of an unsigned root are none."""
    listen = "".join(
        f"net.listen('{one}', {server.port}, {{ kind = 'dns', freebind = false }})\n" for one in site.service
    )
    anchors = (
        f"""local anchors = io.open('{site.anchors}')
local text = anchors and anchors:read('*a') or ''
trust_anchors.remove('.')
if text:match('DNSKEY') then trust_anchors.add_file('{site.anchors}', true) end
"""
        if emulated.validate
        else "trust_anchors.remove('.')\n"
    )
    return f"""modules.unload('priming')
modules.unload('ta_signal_query')
modules.unload('ta_sentinel')
modules.unload('ta_update')
modules.unload('detect_time_jump')
modules.unload('detect_time_skew')
{listen}net.outgoing_v4('{site.upstream[0]}')
net.outgoing_v6('{site.upstream[1]}')
net.bufsize({server.edns_size}, {server.edns_size})
net.tcp_pipeline(100)
cache.open(256 * MB, 'lmdb://{site.folder}/cache')
modules = {{ 'stats', 'hints > iterate' }}
hints.root_file('{site.hints}')
{anchors}option('NO_MINIMIZE', {"false" if emulated.qname_minimization else "true"})
policy.special_names = {{}}
{site.extra}"""


def counted(folder: Path) -> dict[str, int]:
    """By its control socket, which has the process's number for a name."""
    path = next((folder / "control").iterdir())
    values = _values(path, "stats.list()")
    queries = int(values["answer.total"])
    return {
        "queries": queries,
        "recursions": queries - int(values["answer.cached"]),
        "under_way": int(_values(path, "worker.stats()")["concurrent"]),
    }


def _values(path: Path, command: str) -> dict[str, str]:
    text = talk(str(path), f"{command}\n".encode(), lambda so_far: so_far.count(b"> ") >= 2)
    return dict(re.findall(r"\['?([\w.]+)'?\] = (\d+)", text))


KIND = ServerKind(
    "knot-resolver",
    program="kresd",
    asks="--version",
    user="knot-resolver",
    tested=("5.6", "5.7"),
    section="hierarchy",
    options=("-n", "-c", "{config}", "{folder}"),
    stays_root=True,
    complaints=r"out of memory|not enough memory|panic",
    resolver=resolver,
    counted=counted,
)

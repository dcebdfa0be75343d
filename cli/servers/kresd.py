"""knot-resolver: its configuration as a resolver, and what its log complains of.

It does not show its configuration. Ours, which is a program, ends with writing down what is in effect then.
"""

from __future__ import annotations

import re
from pathlib import Path

from cli.servers import kind
from cli.servers.kind import Condition, ServerKind, Serving, Site, Title, talk

_SHOWN = """local settings = io.open('{folder}/settings', 'w')
local downstream, upstream = net.bufsize()
settings:write('downstream: ', downstream, '\\nupstream: ', upstream, '\\n')
settings:write('tcp_in_idle: ', net.tcp_in_idle(), '\\ntcp_pipeline: ', net.tcp_pipeline(), '\\n')
settings:write('cache: ', cache.current_size, '\\n')
settings:write('minimize: ', option('NO_MINIMIZE') and 'no' or 'yes', '\\n')
settings:close()
"""


def resolver(server: kind.Server, emulated: kind.Hierarchy, site: Site) -> str:
    """kresd.conf. Without its answers for special names; anchors of an unsigned root are none."""
    kinds = [("dns", server.port), *([("tls", site.tls.port)] if site.tls else [])]
    tls = f"net.tls('{site.tls.certificate}', '{site.tls.key}')\n" if site.tls else ""
    listen = tls + "".join(
        f"net.listen('{one}', {port}, {{ kind = '{kind}', freebind = false }})\n"
        for kind, port in kinds
        for one in site.addresses
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
net.tcp_in_idle({round(server.tcp_idle_timeout_s * 1000)})
cache.open(256 * MB, 'lmdb://{site.folder}/cache')
modules = {{ 'stats', 'hints > iterate' }}
hints.root_file('{site.hints}')
{anchors}option('NO_MINIMIZE', {"false" if emulated.qname_minimization else "true"})
policy.special_names = {{}}
{site.extra}
{_SHOWN.format(folder=site.folder)}"""


def counted(server: Serving) -> dict[str, int]:
    """By its control socket, which has the process's number for a name."""
    path = next((server.folder / "control").iterdir())
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
    user="knot-resolver",
    tested=("5.6", "5.7"),
    packages=("knot-resolver",),
    section="test",
    options=("-n", "-c", "{config}", "{folder}"),
    stays_root=True,
    unused=("processes", "tcp_count", "tcp_listen_queue"),
    idle_step_s=0.001,
    complaints=r"out of memory|not enough memory|panic",
    reason=r"(?<=error while loading config: )ERROR: .+",  # not the place in its code that it names too
    shows="""cat "$(sed -n "s|.*io.open('\\(.*/settings\\)', 'w').*|\\1|p" "$1")\"""",
    conditions=(
        Condition("queries under way on a TCP connection", "tcp_pipeline"),
        Condition(Title.IDLE, "tcp_in_idle", 0.001),
        Condition(Title.UDP_SIZE, "downstream"),
        Condition(Title.EDNS_SIZE, "upstream"),
        Condition(Title.MINIMIZATION, "minimize"),
        Condition(Title.CACHE, "cache", 1e-6),
    ),
    resolver=resolver,
    counted=counted,
)

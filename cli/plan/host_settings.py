"""Kernel settings of a host under which packets with foreign addresses are forwarded, and the way back.

A write to `ip_forward` or `all.forwarding` changes that of every interface, and IPv6 forwarding makes the
kernel drop default routes that it learned from router advertisements, for good, unless accept_ra is 2. So all
of these settings are kept in a file and put back: forwarding first, twice, because the setting of `all`
overwrites the others' where it changes, and accept_ra last. Interfaces that are gone by then do not matter.
"""

from __future__ import annotations

from cli.plan.planned import shell

Command = tuple[str, ...]

_KEPT = (
    r"^net\.ipv4\.(ip_forward|conf\..*\.(forwarding|rp_filter)) "
    r"|^net\.ipv6\.conf\..*\.(forwarding|accept_ra) "
)
_KEEP = 'test -e "$1" || { sysctl -a 2> /dev/null | grep -E "$2" > "$1.new" && mv "$1.new" "$1"; }'
_RESTORE = (
    'test -e "$1" || exit 0; '
    '{ grep forw "$1"; grep forw "$1"; grep -v forw "$1"; } | sysctl -e -q -p - && rm -f "$1"'
)
_KEEP_ROUTERS = (
    'for file in /proc/sys/net/ipv6/conf/*/accept_ra; do test "$(cat "$file")" != 1 || echo 2 > "$file"; done'
)
_FORWARD = ("sysctl", "-q", "-w", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")


def keep(file: str) -> Command:
    """Keeps the settings as they are in a file, once."""
    return shell(_KEEP, file, _KEPT)


def restore(file: str) -> Command:
    """Puts the settings back; where they are not kept, nothing was changed."""
    return shell(_RESTORE, file)


def forward() -> tuple[Command, ...]:
    return (shell(_KEEP_ROUTERS), _FORWARD)

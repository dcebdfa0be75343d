"""The kernel's own view of the clock (adjtimex(2)): whether something keeps it, and how far it may be off."""

from __future__ import annotations

import ctypes
from typing import Any

_STA_UNSYNC = 0x0040
_TIME_ERROR = 5


class _Timex(ctypes.Structure):
    """struct timex of linux/timex.h on 64-bit machines, up to what is read here."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def state() -> dict[str, Any]:
    """`synchronized`, and in microseconds `estimated_error_us` and `maximum_error_us`, as chrony, ntpd, ptp4l
    or systemd-timesyncd told the kernel. Without any of them the errors mean nothing and are None.
    """
    found = _Timex()
    result = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(found))
    good = result >= 0 and result != _TIME_ERROR and not found.status & _STA_UNSYNC
    return {
        "synchronized": good,
        "estimated_error_us": found.esterror if good else None,
        "maximum_error_us": found.maxerror if good else None,
    }

"""`python -m cli.call MODULE.FUNCTION NAME=VALUE...`: calls a function of ours, as the steps of a plan do.

A value is text where the function wants text or a path, and JSON otherwise. What the function returns is
printed likewise, or is the exit status where it is a number. Signals end it in order, as ctrl-C does.
"""

import importlib
import json
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli.errors import EXIT_FAILED, RepriseError, telling


def words(function: str, **values: Any) -> tuple[str, ...]:
    """The arguments of this module that call a function."""
    return (function, *(f"{name}={_text(value)}" for name, value in values.items()))


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str | Path) else json.dumps(value)


def read(arguments: list[str]) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function that such arguments name, and what it is called with."""
    module, _, name = arguments[0].rpartition(".")
    function = getattr(importlib.import_module(module), name)
    wanted = typing.get_type_hints(function)
    given = dict(word.split("=", 1) for word in arguments[1:])
    return function, {name: _value(text, wanted[name]) for name, text in given.items()}


def _value(text: str, wanted: Any) -> Any:
    if typing.get_origin(wanted) in (list, dict):
        return json.loads(text)
    kinds = typing.get_args(wanted) or (wanted,)
    return Path(text) if Path in kinds else text if str in kinds else json.loads(text)


@telling
def main(arguments: list[str]) -> int:
    try:
        function, given = read(arguments)
        found = function(**given)
    except KeyboardInterrupt:
        return EXIT_FAILED
    except (OSError, EOFError) as error:
        path, why = getattr(error, "filename", None), getattr(error, "strerror", None)
        what = f"{arguments[0].rpartition('.')[2]}: {f'{path}: ' if path else ''}{why or error}"
        raise RepriseError(what, "check the disk's space and permissions") from None
    if isinstance(found, int):
        return found
    if found is not None:
        sys.stdout.write(f"{_text(found)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

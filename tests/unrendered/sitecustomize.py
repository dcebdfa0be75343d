"""In Python's path, has plots painted and not rendered, as tests/command.py does in its forks: for commands
that have to be processes of their own. Rendering takes most of a short run's processor time.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def _save_blank(_figure: object, target: Any, **how: Any) -> None:
    target.write(b'<svg xmlns="http://www.w3.org/2000/svg"></svg>\n' if how["format"] == "svg" else b"")


class _Finder:
    """Finds the module of figures once, and changes it as soon as it is loaded."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, _target: object = None) -> ModuleSpec | None:
        if name != "matplotlib.figure":
            return None
        spec = PathFinder.find_spec(name, path)
        assert spec is not None and spec.loader is not None
        load = spec.loader.exec_module

        def load_changed(module: ModuleType) -> None:
            load(module)
            module.Figure.savefig = _save_blank
            module.ConstrainedLayoutEngine.execute = lambda *_: None

        spec.loader.exec_module = load_changed  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, _Finder)

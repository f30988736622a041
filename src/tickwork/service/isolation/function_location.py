"""The import path of a function, by which another process imports it.

A handler that runs in its own process is not pickled. The process imports its module, as this one
did, and finds it by name. A script that was started directly (`__main__`) is imported by its path,
under another module name, so code under `if __name__ == "__main__"` does not run.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct

MAIN = "__tickwork_main__"
"""The module name of an imported script."""


class FunctionLocation(Struct, frozen=True, array_like=True):
    """A module, by its name or (`path`) its file, and a qualified name in it."""

    module: str
    qualname: str
    path: str | None = None


class NotImportable(Exception):
    """No other process can import this function; the text says why and what to do."""


def location_of(function: Callable[..., Any]) -> FunctionLocation:
    """Where another process finds this function. Raises `NotImportable` if it cannot."""
    module, qualname = function.__module__, function.__qualname__
    if "<" in qualname:
        raise NotImportable(
            "is defined inside a function; define it at the top level of its module"
        )
    if _found(sys.modules.get(module), qualname) is not function:
        raise NotImportable(
            f"is not the object at {module}:{qualname}, so another process cannot import it; put "
            "the app's decorator above all others"
        )
    if module != "__main__":
        return FunctionLocation(module, qualname)
    main = sys.modules["__main__"]
    if main.__spec__ is not None:  # python -m package.module
        return FunctionLocation(main.__spec__.name, qualname)
    if getattr(main, "__file__", None) is None:
        raise NotImportable(
            "was defined interactively; define it in a file, which another process can import"
        )
    return FunctionLocation(MAIN, qualname, str(Path(str(main.__file__)).resolve()))


def import_function(location: FunctionLocation) -> Callable[..., Any]:
    """Imports a function. Raises `NotImportable`, or whatever importing its module raises."""
    module = (
        _import_script(location.path) if location.path else importlib.import_module(location.module)
    )
    function = _found(module, location.qualname)
    if not callable(function):
        raise NotImportable(f"there is no function {location.qualname!r} in {location.module}")
    return function  # type: ignore[no-any-return]


def _found(module: ModuleType | None, qualname: str) -> Any:
    found: Any = module
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found


def _import_script(path: str) -> ModuleType:
    if MAIN in sys.modules:
        return sys.modules[MAIN]
    spec = importlib.util.spec_from_file_location(MAIN, path)
    if spec is None or spec.loader is None:
        raise NotImportable(f"{path} cannot be imported as Python")
    module = sys.modules[MAIN] = importlib.util.module_from_spec(spec)
    with ExitStack() as undoing:
        undoing.callback(sys.modules.pop, MAIN)
        spec.loader.exec_module(module)
        undoing.pop_all()
    return module

"""The name of an app: it separates the scheduled functions of several apps on one database.

Processes with the same app name are one app. Each of them may run any of its functions, so the name
must not depend on which process it is: by default it is the module in which the app is created.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from tickwork.core.fields import NAME_LENGTH_MAX, text_faults, type_faults
from tickwork.errors import InvalidInput

UNKNOWN_MODULE_NAME = "app"
"""Name of an app that was created interactively."""

_FUNCTIONS = ".functions"

APP_NAME_LENGTH_MAX = NAME_LENGTH_MAX - len(_FUNCTIONS)
"""Maximum length of an app's name: the name of its function queue must fit."""


def functions_queue(app: str) -> str:
    """The queue of an app's scheduled functions. A message's type is the name of its schedule."""
    return f"{app}{_FUNCTIONS}"


def qualified_schedule_name(app: str, name: str) -> str:
    """The stored name of an app's schedule if another app has one of the same name."""
    return f"{app}.{name}"


def read_app_name(app: object, given: object) -> str:
    """The given name, or that of the module in which the app is created. Raises `InvalidInput`."""
    faults = type_faults("name", given, str | None)
    name = given if isinstance(given, str) else _module_name(_creator_globals(app))
    if faults := faults or text_faults("name", name, APP_NAME_LENGTH_MAX):
        raise InvalidInput(faults)
    return name


def _creator_globals(app: object) -> Mapping[str, Any]:
    """The globals of the code that creates the app, which may be an object of a subclass."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and (frame.f_globals is globals() or _is_own_init(frame, app)):
        frame = frame.f_back
    return {} if frame is None else frame.f_globals


def _is_own_init(frame: FrameType, app: object) -> bool:
    return frame.f_code.co_name == "__init__" and any(
        local is app for local in frame.f_locals.values()
    )


def _module_name(creator: Mapping[str, Any]) -> str:
    """The module's name; for a script that was started directly, the name of its file."""
    name, spec = creator.get("__name__"), creator.get("__spec__")
    if name == "__main__" and spec is not None:  # python -m package.module
        name = spec.name.removesuffix(".__main__")
    if isinstance(name, str) and not name.startswith("__"):
        return name
    file = creator.get("__file__")
    return Path(file).stem if file else UNKNOWN_MODULE_NAME

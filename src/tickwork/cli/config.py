"""`tickwork config`: shows each setting, its value and where it comes from."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tickwork.cli.command import Group
from tickwork.cli.options import CONNECTION
from tickwork.cli.output import Report, Table, refuse
from tickwork.cli.run import Flags
from tickwork.cli.store_session import chosen_engine, load_settings, warn_of_variables
from tickwork.errors import InvalidInput

if TYPE_CHECKING:
    from tickwork.settings import Settings

config = Group("Settings: show.")

_MASKED = "(hidden)"


@config.plain_command("show", on_database=True, tenant=False)
def show_settings(options: Flags) -> Report:
    """Show every setting, its value, and where it comes from.

    The first that is given wins: an option, an environment variable, the section [server] of
    tickwork.toml in this folder, the default. Secrets are not shown.
    """
    flags: dict[str, Any] = {**options}
    warn_of_variables()
    settings = load_settings(**flags)
    _check_topology()
    origins = _origins({"database": CONNECTION.get().database, **flags})
    rows = [
        {"setting": name, "value": _shown(settings, name), "from": origins.get(name, "default")}
        for name in settings.__struct_fields__
    ]
    return Report(rows, Table(("setting", "value", "from"), map(_row, rows)))


def _check_topology() -> None:
    """Reports the errors of the rest of the file, which the settings do not read."""
    from tickwork.settings import read_topology

    try:
        read_topology(Path.cwd())
    except InvalidInput as error:
        refuse(error, {})


def _origins(flags: dict[str, str | None]) -> dict[str, str]:
    from tickwork.settings import JWT_SECTION, JWT_VARIABLES, SETTINGS_FILE, given_names

    folder, environ = Path.cwd(), os.environ
    text = ""
    if (folder / SETTINGS_FILE).exists():
        text = (folder / SETTINGS_FILE).read_text(encoding="utf-8")
    found = given_names(flags, environ=environ, folder=folder)
    for name, origin in found.items():
        if origin.endswith(SETTINGS_FILE):
            found[name] = f"{SETTINGS_FILE}, line {_line(text, name)}"
    if any(variable.startswith(JWT_VARIABLES) for variable in environ):
        found[JWT_SECTION] = f"{JWT_VARIABLES}…"
    elif f"[[{JWT_SECTION}]]" in text:
        found[JWT_SECTION] = f"{SETTINGS_FILE}, [[{JWT_SECTION}]]"
    engine = chosen_engine()
    if engine is not None:
        found |= dict.fromkeys(engine.given_settings, str(CONNECTION.get().app))
    return found


def _line(text: str, name: str) -> int:
    """The number of the line that gives a setting in the section [server]."""
    lines = enumerate(text.splitlines(), 1)
    section = ""
    for number, line in lines:
        if heading := re.match(r"\s*\[+\s*([\w.\"']+)", line):
            section = heading[1].strip("\"'")
        key = re.match(r"\s*[\"']?([\w.-]+)[\"']?\s*=", line)
        if key and f"{section}.{key[1]}".removeprefix(".") == f"server.{name}":
            return number
    return next((n for n, line in enumerate(text.splitlines(), 1) if "server" in line), 1)


def _shown(settings: Settings, name: str) -> Any:
    from tickwork.settings import SECRETS
    from tickwork.wiring import shown_database, without_password

    value = getattr(settings, name)
    if value is None:
        return None
    if name in SECRETS:
        return _MASKED
    if name == "database":
        return shown_database(settings)
    if name == "database_direct":
        return without_password(value)
    if name == "jwt":
        return [issuer.issuer for issuer in value]
    if isinstance(value, frozenset | tuple):
        return sorted(map(str, value))
    return value


def _row(setting: dict[str, Any]) -> tuple[str, str, str]:
    value = setting["value"]
    text = ",".join(value) if isinstance(value, list) else "" if value is None else str(value)
    return setting["setting"], text, setting["from"]

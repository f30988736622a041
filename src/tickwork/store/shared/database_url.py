"""Names a database in messages for people: by its URL without the password."""

from __future__ import annotations

import re
from shlex import quote

FROZEN = "frozen: "
"""How the error of a frozen database begins."""

_LOGIN_PASSWORD = re.compile(r"(?<=//)([^/@:]*):[^/]*@")
_QUERY_PASSWORD = re.compile(r"(?<=[?&])(?:ssl)?password=[^&]*(?:&|$)")


def without_password(url: str) -> str:
    """The URL without passwords, in the login and in the query."""
    return _QUERY_PASSWORD.sub("", _LOGIN_PASSWORD.sub(r"\1@", url)).rstrip("?&")


def migrate_command(url: str) -> str:
    """The command that migrates this database, in backticks. It has no password: the reader adds
    it, or PGPASSWORD has it."""
    return f"`tickwork migrate --database {quote(without_password(url))}`"

"""The ways out of a process: which modules connect to other machines, and who chose the address.

What a tenant may choose is reached through a guard with the operator's allow list. The tests in
`tests/channel/test_sinks.py` try every such way; a new way has to be added there, or be listed here
with whoever chose its address.
"""

from __future__ import annotations

import ast

import pytest

from tests.tidy import laws
from tests.tidy.test_laws import on_tree
from tests.tidy.test_tidy import PACKAGE, keep, modules, parse, read

GUARDED = ("channel/guard.py", "channel/guarded_connector.py", "channel/services.py",
           "channel/webhook.py")  # fmt: skip
"""Modules that connect where a tenant may say to."""

CHOSEN_BY_THE_OPERATOR = {
    "api/jwt.py": "the keys of an issuer in the settings",
    "channel/email.py": "the relay in the settings",
    "channel/listener.py": "the URL that a developer forwards to, on the own machine",
    "cli/import_sources.py": "the database that is imported from, on the command line",
    "client/transport.py": "the server that the caller of the client names",
    "service/isolation/process_handle.py": "a pair of sockets to a process of its own",
    "service/isolation/process_main.py": "the other end of that pair",
    "service/processes/child.py": "a pair of sockets to its parent, and those of the parent",
    "service/processes/parent.py": "the other ends of these pairs",
    "testing/recorder.py": "the database of a test",
    "testing/store_setup.py": "the database of a test",
}
DATABASE = ("store/postgres/", "store/ports/")
"""Modules that use the database in the settings, or a connection that a caller has opened."""

MADE = {
    "Guard(settings.allow_targets)": ("guard", "webhook_deliveries"),
    "WebhookChannel(guard(settings))": ("webhook_channel",),
    "RemoteService(name, url, guard(settings))": ("remote_service",),
}
"""How guards and what they protect are made, and the functions of `wiring/deliveries.py` that do
it."""

OUT = (
    "import aiohttp",
    "from aiohttp import ClientSession, web",
    "import urllib.request",
    "from urllib import request",
    "import http.client as plain",
    "async def f():\n    import httpx",
    "await asyncio.open_connection(host, port)",
    "from asyncio import open_connection\nopen_connection(1)",
    "loop.create_connection(Protocol, host, port)",
    "import socket\nsocket.create_connection(address)",
    "import socket\nsocket.socket()",
    "from socket import socket\nsocket().connect(address)",
)
NOT_OUT = (
    "from aiohttp import web",
    "import urllib.parse",
    "from http import HTTPStatus",
    "import socket\nsocket.gethostname()",
    "async def f(listener: socket.socket): ...",
    "sqlite3.connect(path)",
)
GUARDED_SESSION = "aiohttp.ClientSession(connector=self._guard.connector(limit=1), trust_env=False)"
UNGUARDED = (
    "aiohttp.ClientSession()",
    "ClientSession(connector=TCPConnector(), trust_env=False)",
    GUARDED_SESSION.replace(", trust_env=False", ""),
    "self._opened().request(method, url)",
    "self._opened().get(url, allow_redirects=True)",
)


def test_the_laws_catch_and_let_pass() -> None:
    assert [source for source in OUT if not on_tree(laws.ways_out, source)] == []
    assert [source for source in NOT_OUT if on_tree(laws.ways_out, source)] == []
    assert [source for source in UNGUARDED if not on_tree(laws.unguarded_sessions, source)] == []
    free = (GUARDED_SESSION, "self._opened().request(method, url, allow_redirects=False)")
    assert [source for source in free if on_tree(laws.unguarded_sessions, source)] == []


def test_only_the_listed_modules_connect_to_other_machines() -> None:
    found = {
        name
        for path in modules()
        if not (name := str(path.relative_to(PACKAGE))).startswith(DATABASE)
        and any(laws.ways_out(parse(path)))
    }
    assert found == {*GUARDED, *CHOSEN_BY_THE_OPERATOR}


def test_what_a_tenant_may_choose_is_reached_through_a_guard() -> None:
    users = [module for module in modules() if "aiohttp" in read(module)]
    assert PACKAGE / "channel" / "webhook.py" in users
    keep(
        laws.unguarded_sessions,
        parse,
        (user for user in users if user != PACKAGE / "channel" / "listener.py"),
    )


@pytest.mark.parametrize("call", MADE)
def test_only_deliveries_makes_guards_and_sinks_from_the_allow_list(call: str) -> None:
    name, made_in = call.partition("(")[0], list[tuple[str, str]]()
    for path in (module for module in modules() if f"{name}(" in read(module)):
        for function in laws.nodes_of(parse(path)):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                made_in += [
                    (f"{path.relative_to(PACKAGE)}: {function.name}", ast.unparse(node))
                    for node in ast.walk(function)
                    if isinstance(node, ast.Call) and _name(node.func) == name
                ]
    assert made_in == [(f"wiring/deliveries.py: {maker}", call) for maker in MADE[call]]


def _name(node: ast.expr) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)

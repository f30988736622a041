"""The style rules, each a pure function from one file to its offences.

An offence is a line number and a description. `test_tidy.py` applies the rules to the tree;
`test_laws.py` tests the rules with examples. Patterns are written like `[h]ome` so that this file
does not match them.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import tickwork

CRUMB_CODE_LINES_MAX = 60
FUNCTION_LINES_MAX = 70
COMPLEXITY_MAX = 20
METHODS_MAX = 25
NAMES_PACKED_MAX = 2

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_NAMED = _FUNCTIONS | ast.ClassDef | ast.ExceptHandler | ast.MatchAs | ast.MatchStar
"""Nodes whose `name` is the one that they define."""

_DECISIONS = (
    ast.If | ast.IfExp | ast.For | ast.AsyncFor | ast.While | ast.ExceptHandler | ast.match_case
)
_VAGUE = frozenset({"apart", "held", "place", "sightings", "tell", "told"})
"""Words that the glossary replaces: locked or claimed, report or warn, position or path."""

_VAGUE_PROSE = re.compile(
    r"(?<!`)\b(apart|aside|held|sightings?|telling|tells?|told)\b", re.IGNORECASE
)
"""The same words in prose. A verb or a preposition says more: report, distinguish, except for."""

_CLOCKS = frozenset(
    {
        "datetime.date.today",
        "datetime.datetime.now",
        "datetime.datetime.today",
        "datetime.datetime.utcnow",
        "time.gmtime",
        "time.localtime",
        "time.monotonic",
        "time.monotonic_ns",
        "time.perf_counter",
        "time.perf_counter_ns",
        "time.process_time",
        "time.process_time_ns",
        "time.time",
        "time.time_ns",
    }
)
_NOT_CODE = frozenset(
    {
        tokenize.COMMENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
        tokenize.INDENT,
        tokenize.NEWLINE,
        tokenize.NL,
    }
)
_BROAD = frozenset({"Exception", "BaseException"})

_CLIENTS = frozenset(
    {
        "aiohttp", "aiosmtplib", "asyncpg", "boto3", "botocore", "ftplib", "grpc",
        "http.client", "httpcore", "httpx", "imaplib", "kombu", "paramiko", "poplib", "psycopg",
        "psycopg_pool", "pycurl", "redis", "requests", "smtplib", "telnetlib", "urllib.request",
        "urllib3", "websockets", "xmlrpc.client",
    }
)  # fmt: skip
"""Packages that connect to other machines."""

_CONNECTS = frozenset(
    {
        "create_connection", "create_datagram_endpoint", "open_connection", "open_unix_connection",
        "sendto", "sock_connect",
    }
)  # fmt: skip
"""Names of functions that connect, of an event loop, of `asyncio` or of `socket`."""

# Keywords must be all upper or all lower case: "Select one from the list" is prose.
_STATEMENTS = (
    r"SELECT\s.*?\sFROM\s",
    r"SELECT\s+[\w.]+\(",
    r"WITH\s+(RECURSIVE\s+)?\w+\s*(\([^)]*\)\s*)?AS\s+((NOT\s+)?MATERIALIZED\s*)?\(",
    r"INSERT\s+(OR\s+\w+\s+)?INTO\s",
    r"UPDATE\s+[\w.]+\s+(AS\s+\w+\s+)?SET\s",
    r"DELETE\s+FROM\s",
    r"(CREATE|ALTER|DROP)\s+(\w+\s+){0,3}(TABLE|INDEX|VIEW|TRIGGER|FUNCTION|TYPE|SCHEMA)\s",
    r"COPY\s+[\w.]+\s.*?(FROM|TO)\s",
    r"TRUNCATE\s+(TABLE\s+)?\w",
    r"(LISTEN|UNLISTEN|NOTIFY)\s+\w",
)
_SQL = re.compile(
    r"\s*(" + "|".join(_STATEMENTS) + "|" + "|".join(map(str.lower, _STATEMENTS)) + ")", re.DOTALL
)

_UNFINISHED = re.compile(r"\b([T]ODO|[F]IXME|[X]XX|[N]otImplementedError)\b")
_EVASIONS = re.compile(r"\b(time\.[s]leep\(|pytest\.(mark\.)?[s]kip|import[o]rskip|[x]fail\b)")
_PLACES = re.compile(
    r"\b(pypi|pythonhosted|npmjs)\.[o]rg\b"
    r"|https?://[^\s\"]*/([s]imple/|[p]ackages/[0-9a-f]{2}/|[p]ool/main)"
    r"|(?<![\w.~-])/([h]ome|[U]sers|[r]oot|[w]ork)/\w"
)


class Offence(NamedTuple):
    """A line number and what is wrong there."""

    line: int
    what: str


@cache
def code_lines(text: str) -> int:
    """Number of lines of code, without blank lines, comments and docstrings."""
    prose: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            prose |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NOT_CODE:
            code |= {*range(token.start[0], token.end[0] + 1)}
    return len(code - prose)


@cache
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Every node of a module. A walk costs as much as a law, so the laws share it."""
    return tuple(ast.walk(tree))


def complexity(function: ast.AST) -> int:
    """How many ways lead through a function: one, and one more for every decision in it."""
    ways = 1
    for node in ast.walk(function):
        if isinstance(node, _DECISIONS):
            ways += 1
        elif isinstance(node, ast.BoolOp):
            ways += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            ways += 1 + len(node.ifs)
    return ways


def complex_functions(tree: ast.Module) -> Iterator[Offence]:
    """A function has a complexity of at most 20."""
    for node in nodes_of(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            ways = complexity(node)
            if ways > COMPLEXITY_MAX:
                yield Offence(node.lineno, f"{node.name} has a complexity of {ways}")


def large_classes(tree: ast.Module) -> Iterator[Offence]:
    """A class has at most 25 methods. A property of a protocol is an attribute."""
    for node in nodes_of(tree):
        if isinstance(node, ast.ClassDef):
            is_protocol = any("Protocol" in ast.unparse(base) for base in node.bases)
            methods = sum(
                isinstance(part, _FUNCTIONS) and not (is_protocol and _is_property(part))
                for part in node.body
            )
            if methods > METHODS_MAX:
                yield Offence(node.lineno, f"{node.name} has {methods} methods")


def _is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(decorator) == "property" for decorator in function.decorator_list)


def packed_assignments(tree: ast.Module) -> Iterator[Offence]:
    """At most two names are on the left of an `=` whose right side is written out, or in a chain of
    `=`."""
    for node in nodes_of(tree):
        if not isinstance(node, ast.Assign):
            continue
        counts = [len(node.targets)]
        if isinstance(node.value, ast.Tuple):
            counts += [len(part.elts) for part in node.targets if isinstance(part, ast.Tuple)]
        if max(counts) > NAMES_PACKED_MAX:
            yield Offence(node.lineno, f"assigns {max(counts)} names at once")


def vague_names(tree: ast.Module) -> Iterator[Offence]:
    """No variable is called `each`, and no name has a word that means several things."""
    for node in nodes_of(tree):
        name = _name_defined(node)
        words = {*name.lower().strip("_").split("_")}
        if found := words & _VAGUE or {"each"} & {name}:
            yield Offence(getattr(node, "lineno", 1), f"{name}: say what it is, not {min(found)}")


def vague_docstrings(tree: ast.Module) -> Iterator[Offence]:
    """A docstring uses the words of the glossary, and none that it replaces."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            for found in _VAGUE_PROSE.finditer(text if isinstance(text, str) else ""):
                line = node.lineno + found.string.count("\n", 0, found.start())
                yield Offence(line, f"says {found[0]!r}: use a word of the glossary")


def _name_defined(node: ast.AST) -> str:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.attr
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.alias):
        return node.asname or ""
    if isinstance(node, ast.MatchMapping):
        return node.rest or ""
    return node.name or "" if isinstance(node, _NAMED) else ""


def long_functions(tree: ast.Module) -> Iterator[Offence]:
    """A function has at most 70 lines."""
    for node in nodes_of(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield Offence(node.lineno, f"{node.name} of {lines} lines")


def missing_docstring(tree: ast.Module) -> Iterator[Offence]:
    """A module has a docstring."""
    if not ast.get_docstring(tree):
        yield Offence(1, "no module docstring")


def clock_readings(tree: ast.Module) -> Iterator[Offence]:
    """No module but `clock.py` calls or passes on a function that reads the local clock."""
    origins = _imported_names(tree)
    for node in nodes_of(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            origin = _origin(node, origins)
            if origin in _CLOCKS:
                yield Offence(node.lineno, f"reads a local clock: {origin}")


def ways_out(tree: ast.Module) -> Iterator[Offence]:
    """Only the listed modules use what connects to other machines."""
    origins = _imported_names(tree)
    for node in nodes_of(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Name | ast.Attribute) and _last_name(node) in _CONNECTS:
            yield Offence(node.lineno, f"connects: {ast.unparse(node)}")
        elif isinstance(node, ast.Call) and _origin(node.func, origins) == "socket.socket":
            yield Offence(node.lineno, "makes a socket")
        for name in names:
            parts = name.split(".")
            starts = {".".join(parts[: at + 1]) for at in range(len(parts))}
            if starts & _CLIENTS and "aiohttp.web" not in starts:
                yield Offence(getattr(node, "lineno", 1), f"imports {name}")


def hidden_imports(tree: ast.Module) -> Iterator[Offence]:
    """A row of the benchmarks imports from the package what a user may import."""
    for node in nodes_of(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if "." in alias.name]
        elif isinstance(node, ast.ImportFrom) and node.module == "tickwork":
            names = [
                f"tickwork.{alias.name}"
                for alias in node.names
                if alias.name not in tickwork.__all__
            ]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            if name.startswith("tickwork.") and name != "tickwork.testing":
                yield Offence(getattr(node, "lineno", 1), f"imports {name}")


def unguarded_sessions(tree: ast.Module) -> Iterator[Offence]:
    """A session of aiohttp has the connector of a guard and no proxy of the environment, and none
    of its requests follows a redirect."""
    for node in nodes_of(tree):
        if not isinstance(node, ast.Call):
            continue
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        if _last_name(node.func) == "ClientSession":
            if not given.get("connector", "").startswith("self._guard.connector("):
                yield Offence(node.lineno, "has not the connector of a guard")
            if given.get("trust_env") != "False":
                yield Offence(node.lineno, "may use a proxy of the environment")
        is_request = _last_name(node.func) in _REQUESTS and "_opened()." in ast.unparse(node.func)
        if is_request and given.get("allow_redirects") != "False":
            yield Offence(node.lineno, "may follow a redirect")


_REQUESTS = frozenset({"delete", "get", "head", "options", "patch", "post", "put", "request"})


def broad_catches(tree: ast.Module) -> Iterator[Offence]:
    """An except clause or a suppress() names specific exceptions."""
    for node in nodes_of(tree):
        if isinstance(node, ast.ExceptHandler):
            caught = [node.type]
        elif isinstance(node, ast.Call) and _last_name(node.func) == "suppress":
            caught = [*node.args]
        else:
            continue
        if any(_is_broad(kind) for kind in caught):
            yield Offence(node.lineno, "catches everything")


def embedded_sql(tree: ast.Module) -> Iterator[Offence]:
    """SQL is in .sql files; transaction control and PRAGMA may be in Python."""
    for line, text in _strings(tree):
        if _SQL.match(text + " "):
            yield Offence(line, f"holds SQL: {' '.join(text.split())[:40]}")


def vague_quantities(text: str) -> Iterator[Offence]:
    """A constant's docstring begins with its quantity: "Seconds between heartbeats."."""
    return _matches(re.compile(r'^ *"""So (long|many|often|much|far)\b', re.MULTILINE), text)


def unfinished_marks(text: str) -> Iterator[Offence]:
    """No file contains a mark for unfinished work."""
    return _matches(_UNFINISHED, text)


def evasions(text: str) -> Iterator[Offence]:
    """A test does not sleep, skip or expect its own failure."""
    return _matches(_EVASIONS, text)


def named_places(text: str) -> Iterator[Offence]:
    """No file names a package registry or a path of one machine."""
    return _matches(_PLACES, text)


def addresses_in_lock(text: str) -> Iterator[Offence]:
    """A lock file has versions and hashes, but no addresses."""
    return _matches(re.compile(r"://|^\s*-(?!-hash=)\S+", re.MULTILINE), text)


def unexplained_sql(text: str) -> Iterator[Offence]:
    """The first line of a .sql file is a comment that describes the statement."""
    if not re.match(r"-- \S", text):
        yield Offence(1, "does not begin with a comment")


def _matches(pattern: re.Pattern[str], text: str) -> Iterator[Offence]:
    for found in pattern.finditer(text):
        yield Offence(text.count("\n", 0, found.start()) + 1, f"says {found[0].strip()!r}")


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """Local name → dotted origin, of every import anywhere in the module."""
    origins: dict[str, str] = {}
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                origins[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                origins[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return origins


def _origin(node: ast.expr, origins: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return origins.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _origin(node.value, origins)
        return f"{owner}.{node.attr}" if owner else None
    return None


def _last_name(node: ast.expr) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)


def _is_broad(kind: ast.expr | None) -> bool:
    if isinstance(kind, ast.Tuple):
        return any(_is_broad(item) for item in kind.elts)
    return kind is None or _last_name(kind) in _BROAD


def _strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """All strings except docstrings; an expression in an f-string becomes `x`."""
    nodes = nodes_of(tree)
    skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
            parts = (getattr(part, "value", "") for part in node.values)
            yield node.lineno, "".join(part if isinstance(part, str) else "x" for part in parts)
    for node in nodes:
        if id(node) in skipped or not isinstance(node, ast.Constant):
            continue
        if isinstance(node.value, str):
            yield node.lineno, node.value

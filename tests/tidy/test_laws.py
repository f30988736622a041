"""Every law catches what it is there for, and lets its neighbours pass."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

import pytest

from tests.tidy import laws
from tests.tidy.laws import Offence

CLOCKS_READ = (
    "import time\ntime.time()",
    "import time as t\nread = t.monotonic",
    "from time import perf_counter as tick\ntick()",
    "import datetime\ndatetime.datetime.now(datetime.UTC)",
    "from datetime import datetime as dt\ndt.utcnow()",
    "from datetime import date\ndate.today()",
    "def late():\n    import time\n    return time.monotonic()",
)
CLOCKS_LEFT_ALONE = (
    "from datetime import datetime\ndatetime(2026, 1, 1).time()",
    "def due(now): return now.time()",
    "import time\ntime.strptime('9', '%H')",
)
BROAD = (
    "try: f()\nexcept: pass",
    "try: f()\nexcept Exception: pass",
    "try: f()\nexcept (KeyError, BaseException): pass",
    "import contextlib\nwith contextlib.suppress(Exception): f()",
)
NARROW = (
    "try: f()\nexcept (KeyError, ValueError): pass",
    "import contextlib\nwith contextlib.suppress(OSError): f()",
)
SQL = (
    "q = 'SELECT id FROM messages'",
    "q = '''\n  with due as (select 1) select * from due'''",
    "q = 'UPDATE messages SET state = 1'",
    "q = f'UPDATE {table} SET state = {state}'",
    "q = 'insert or ignore into messages values (1)'",
    "q = 'DELETE FROM messages'",
    "q = 'CREATE UNIQUE INDEX a ON b (c)'",
    "q = 'select pg_notify($1, $2)'",
    "q = 'LISTEN wake'",
)
NO_SQL = (
    "q = 'Select one from the list'",
    "q = 'update the schedule, then set its zone'",
    "q = 'PRAGMA journal_mode = WAL'\nq = 'BEGIN IMMEDIATE'\nq = 'SAVEPOINT work'",
    "def f():\n    '''DELETE FROM messages is what this file stands for.'''",
    "q = 'with care as always'",
)
PLACES = (
    "--index-url https://py" + "pi.org/simple",
    "https://mirror.example/" + "simple/tickwork/",
    "cd /ho" + "me/ada/tickwork",
    "file:///ro" + "ot/wheels",
)
NO_PLACES = (
    "https://keepachangelog.com/en/1.1.0/",
    "see src/home/page and ./jobs/item",
    "GET /v1/users/home/",
)
LOCK = "a==1 ; sys_platform == 'win32' \\\n    --hash=sha256:00\n"
LOCKS_WITH_ADDRESSES = (
    "--index-url https://example.com\n" + LOCK,
    "--find-links wheels\n" + LOCK,
    "-e .\n" + LOCK,
    "a @ file:///a.whl\n",
)
EVASIONS = ("time.sl" + "eep(1)", "@pytest.mark.sk" + "ipif(x)", "pytest.mark.xf" + "ail")
TANGLED = "def f(a):\n" + "    if a and a: g()\n" * 10
PACKED = ("a, b, c = 1, 2, 3", "self.a, self.b, self.c = a, b, c", "a = b = c = 0")
NOT_PACKED = ("a, b = 1, 2", "a, b, c = row", "a = b = 0")
VAGUE = (
    "for each in letters: pass",
    "def tell(): pass",
    "x._held_at = 1",
    "f = lambda place: 1",
    "import placement as place",
    "try: f()\nexcept OSError as told: pass",
    "match x:\n    case [held, *_]: pass",
    "match x:\n    case {**apart}: pass",
)
NOT_VAGUE = ("for letter in letters: pass", "store.told", "def replace(placement): pass")
VAGUE_PROSE = (
    '"""A queue.\n\nIts messages are held."""',
    'def f():\n    """Tells two apart."""',
    'LIMIT = 3\n"""Seconds until somebody is told."""',
)
CLEAR_PROSE = (
    '"""Messages are stored as `held`. Their siblings are retold."""',
    'text = "told"',
    "...",
)
HIDDEN = (
    "from tickwork import wiring",
    "from tickwork.store.ids import new_id",
    "import tickwork.clock",
)
NOT_HIDDEN = (
    "import tickwork\nfrom tickwork import Step, Tickwork",
    "from tickwork.testing import due_next",
    "from tests.kit.tuned import tuned",
)
LARGE_CLASS = "class C:\n" + "    def m(self): pass\n" * (laws.METHODS_MAX + 1)
ATTRIBUTES = LARGE_CLASS.replace("    def", "    @property\n    def")
LONG_FUNCTION = "def f():\n" + "    g()\n" * laws.FUNCTION_LINES_MAX


def on_tree(law: Callable[[ast.Module], Iterable[Offence]], source: str) -> list[Offence]:
    return list(law(ast.parse(source)))


@pytest.mark.parametrize(
    ("law", "caught", "free"),
    [
        (laws.clock_readings, CLOCKS_READ, CLOCKS_LEFT_ALONE),
        (laws.broad_catches, BROAD, NARROW),
        (laws.embedded_sql, SQL, NO_SQL),
        (laws.missing_docstring, ("x = 1", ""), ('"""Says something."""',)),
        (laws.complex_functions, (TANGLED,), (TANGLED.replace(" and a", "", 1),)),
        (laws.packed_assignments, PACKED, NOT_PACKED),
        (laws.vague_names, VAGUE, NOT_VAGUE),
        (laws.vague_docstrings, VAGUE_PROSE, CLEAR_PROSE),
        (laws.hidden_imports, HIDDEN, NOT_HIDDEN),
        (
            laws.large_classes,
            (LARGE_CLASS, ATTRIBUTES),
            (
                LARGE_CLASS.replace("    def m(self): pass\n", "", 1),
                ATTRIBUTES.replace("class C", "class C(Protocol)"),
            ),
        ),
        (laws.long_functions, (LONG_FUNCTION,), (LONG_FUNCTION.replace("    g()\n", "", 1),)),
    ],
)
def test_a_law_of_syntax_catches_and_lets_pass(
    law: Callable[[ast.Module], Iterable[Offence]], caught: tuple[str, ...], free: tuple[str, ...]
) -> None:
    assert [source for source in caught if not on_tree(law, source)] == []
    assert [source for source in free if on_tree(law, source)] == []


@pytest.mark.parametrize(
    ("law", "caught", "free"),
    [
        (laws.unfinished_marks, ("# TO" + "DO: all", "raise NotImplemented" + "Error"), ("todos",)),
        (
            laws.evasions,
            ("time.sl" + "eep(1)", "@pytest.mark.sk" + "ipif(x)"),
            ("asyncio.sleep(0)",),
        ),
        (laws.named_places, PLACES, NO_PLACES),
        (
            laws.vague_quantities,
            ('LIMIT = 3\n"""So many tries."""', '    """So long it waits."""'),
            ('LIMIT = 3\n"""Number of tries."""',),
        ),
        (laws.addresses_in_lock, LOCKS_WITH_ADDRESSES, (LOCK,)),
        (laws.unexplained_sql, ("SELECT 1;", "--\nSELECT 1;"), ("-- Answers one.\nSELECT 1;",)),
    ],
)
def test_a_law_of_text_catches_and_lets_pass(
    law: Callable[[str], Iterable[Offence]], caught: tuple[str, ...], free: tuple[str, ...]
) -> None:
    assert [text for text in caught if not list(law(text))] == []
    assert [text for text in free if list(law(text))] == []


def test_an_offence_knows_its_line() -> None:
    assert on_tree(laws.clock_readings, "import time\n\ntime.time()")[0].line == 3
    assert next(iter(laws.unfinished_marks("a\nb FIX" + "ME"))).line == 2

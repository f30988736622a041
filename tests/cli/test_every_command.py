"""Laws of all commands: each is listed here, explains itself, prints JSON and fails in one line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tickwork.cli import app, session

REMOTE = """
audit · capacity · batches cancel create items list show watch · calendars delete list put show ·
cluster narrow pause resume show widen · dead discard edit groups list replay show ·
deliveries list recover resend show ·
endpoints create delete disable enable list rotate-secret show stats test update ·
entities alarm call delete delete-value list put show why · events publish · find ·
firings complete · history default handled list show ·
keys create list revoke rotate · limits delete list put · messages delete list show · nodes ·
operations list show start stop · performance ·
queues create delete list pause peek purge resume send stats update ·
schedules backfill create delete firings list pause resume show trigger upcoming update ·
stats · status · subscriptions create delete list · tenants create limits list resume show suspend ·
top · trace · types list show · upcoming · usage · why ·
workflows accept cancel events list pause restart resume send show start terminate
"""
"""Commands that work on a database and on a server."""

LOCAL = """
alerts clear set show · cluster reshard · config show ·
doctor · endpoints public-keys · forecast · import apscheduler celery-beat crontab undo · late ·
listen · migrate · readers grant list revoke · topology apply show stored · types check · up ·
webhooks secret ·
workflows check replay
"""
"""Commands that need a database."""

ALONE = "copy · explain · init · next · run · services list · topology check · what-if"
"""Commands that need neither, or find the database in an app."""

WITHOUT_JSON = {"up", "run", "listen"}
"""Commands that run until they are stopped."""

VALUES = {
    "EXPR": "@daily", "N": "4", "DATA": "{}", "BODY": "{}", "VALUE": "1", "FILE": "days.txt",
    "FILE|-": "-", "ID": "0" * 32, "MODULE:APP": "nothing:app", "SECONDS": "60",
}  # fmt: skip
"""A value for each argument; of others the name of the argument."""

MORE = {
    "dead edit": ["--body", "{}"],
    "deliveries recover": ["--since", "2027-01-01T00:00:00Z"],
    "firings complete": ["--token", "tct_" + "A" * 64 + "ZGVmYXVsdA"],
    "keys create": ["--scope", "read"],
    "queues update": ["--rate-per-second", "1"],
    "operations start": ["--selection", "{}"],
    "readers grant": ["--tenant", "a"],
    "schedules backfill": ["--from", "2027-01-01T00:00:00Z", "--to", "2027-01-02T00:00:00Z"],
    "schedules create": ["--queue", "q"],
    "endpoints create": ["--url", "https://example.com", "--type", "a"],
    "endpoints update": ["--url", "https://example.com"],
    "workflows replay": [],
    "workflows check": [],
    "what-if": ["--users", "10", "--seconds", "3"],
    "alerts set": ["--email", "ann@example.com"],
}
"""Options that a command cannot do without."""


def commands() -> Iterator[tuple[str, Any]]:
    def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        inner = getattr(command, "commands", None)
        if inner is None:
            yield " ".join(path), command
            return
        for name in inner:
            yield from walk(inner[name], (*path, name))

    yield from walk(app, ())


EVERY = dict(commands())


def named(text: str) -> set[str]:
    found = set[str]()
    for group in re.split(r"·", " ".join(text.split())):
        first, *others = group.split()
        found |= {f"{first} {other}" for other in others} or {first}
    return found


def options_of(command: Any) -> set[str]:
    return {option for param in command.params for option in param.opts}


def words(name: str) -> list[str]:
    """A whole call of a command."""
    arguments = [param for param in EVERY[name].params if param.param_type_name == "argument"]
    given = [VALUES.get(argument.metavar, argument.metavar.lower()) for argument in arguments]
    yes = ["--yes"] if "--yes" in options_of(EVERY[name]) else []
    return [*name.split(), *given, *MORE.get(name, []), *yes]


def test_every_command_is_listed() -> None:
    """A new command is added to one of the lists above: does it work on a server?"""
    assert named(REMOTE) | named(LOCAL) | named(ALONE) == {*EVERY}


@pytest.mark.parametrize("name", EVERY)
def test_a_command_explains_itself(name: str) -> None:
    command = EVERY[name]
    shown = CliRunner().invoke(app, [*name.split(), "--help"])
    assert (shown.exit_code, shown.stderr) == (0, "")
    sentence = (command.help or "").splitlines()[0]
    assert re.match(r"[A-Z][^.]{8,}", sentence), "a sentence says what it does"
    assert sentence.split()[0] in shown.stdout
    for param in command.params:
        assert param.help or param.name == "help", f"{param.name} has no help"
    assert ("--json" in options_of(command)) == (name not in WITHOUT_JSON)
    assert ("--database" in options_of(command)) == (name not in named(ALONE))
    if name in named(REMOTE):  # An argument KEY is no key of the API.
        assert {"--app", "--server", "--api-key"} <= options_of(command)


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("dead list", "[QUEUE]"),
        ("dead replay", "QUEUE"),
        ("events publish", "TYPE [DATA]"),
        ("run", "MODULE:APP"),
        ("schedules update", "SCHEDULE [EXPR]..."),
    ],
)
def test_the_usage_shows_what_may_be_left_out_in_brackets(name: str, usage: str) -> None:
    shown = CliRunner().invoke(app, [*name.split(), "--help"], prog_name="tickwork")
    assert shown.stdout.startswith(f"Usage: tickwork {name} [OPTIONS] {usage}\n")


@pytest.mark.parametrize("name", EVERY)
def test_a_bad_call_is_one_sentence_and_exit_2(name: str) -> None:
    refused = CliRunner().invoke(app, [*name.split(), "--no-such-option"])
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("tickwork: No such option")
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["queues"], "Missing command; see `tickwork queues --help`"),
        (["queues", "xyz"], "No such command 'xyz'; see `tickwork queues --help`"),
        (["queues", "lst"], "No such command 'lst'. Did you mean 'list'?"),
        (
            ["entities", "show", "A", "a", "--xyz"],
            "No such option '--xyz'; see `tickwork entities show --help`",
        ),
    ],
)
def test_a_usage_error_leads_to_the_help(words: list[str], says: str) -> None:
    refused = CliRunner().invoke(app, words, prog_name="tickwork")
    assert (refused.exit_code, refused.stderr) == (2, f"tickwork: {says}\n")


@pytest.mark.parametrize("name", sorted(named(REMOTE)))
def test_a_server_that_is_not_there_is_one_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "days.txt").write_text("2027-12-25\n")
    monkeypatch.setattr(session, "RETRY_SECONDS", 0.0)
    refused = CliRunner().invoke(app, [*words(name), "--server", "http://127.0.0.1:1"])
    assert (refused.exit_code, refused.stdout) == (1, ""), refused.stderr
    assert refused.stderr.startswith("tickwork: service http://127.0.0.1:1: cannot be reached")
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize("name", sorted(named(LOCAL)))
def test_a_command_for_databases_says_so(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tickwork.toml").write_text("")
    (tmp_path / "days.txt").write_text("0 9 * * * /bin/true\n")
    refused = CliRunner().invoke(app, [*words(name), "--server", "http://127.0.0.1:1"])
    assert (refused.exit_code, refused.stdout) == (2, ""), refused.stderr
    if name not in ("types check", "workflows check", "workflows replay"):  # They need an app.
        assert "works on a database, not on a server: give --database" in refused.stderr
    assert refused.stderr.count("\n") == 1

"""Commands print the same on a database and on the server of that database."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.api.test_server import key_of, started
from tests.kit.process import Children
from tickwork.cli import app

CHANGES = [
    ["queues", "create", "emails", "--max-retries", "2"],
    ["queues", "send", "emails", '{"to": "ada"}', "--type", "welcome"],
    ["queues", "send", "emails", '{"to": "bob"}', "--delay-seconds", "3600"],
    ["queues", "update", "emails", "--rate-per-second", "5"],
    ["queues", "pause", "emails"],
    ["schedules", "create", "0 9 * * *", "--queue", "emails", "--name", "report"],
    ["schedules", "update", "report", "--fields", '{"metadata": {"plan": "pro"}}'],
    ["schedules", "pause", "report"],
    ["limits", "put", "partner", "--rate", "100"],
    ["subscriptions", "create", "order.*", "emails"],
    ["events", "publish", "order.paid", '{"id": 1}'],
    ["tenants", "create", "acme", "--schedules-max", "7"],
]
LOOKS = [
    ["queues", "list"],
    ["queues", "peek", "emails"],
    ["messages", "list", "emails"],
    ["messages", "list", "emails", "--state", "delayed", "--limit", "1"],
    ["stats"],
    ["usage"],
    ["schedules", "list"],
    ["schedules", "show", "report"],
    ["schedules", "firings", "report"],
    ["why", "report"],
    ["limits", "list"],
    ["subscriptions", "list"],
    ["dead", "list", "emails"],
    ["dead", "groups", "emails"],
    ["batches", "list"],
    ["workflows", "list"],
    ["endpoints", "list"],
    ["deliveries", "list"],
    ["deliveries", "show", "abc"],
    ["tenants", "show", "acme"],
    ["audit"],
    ["queues", "stats", "nobody"],
    ["schedules", "show", "nobody"],
    ["messages", "list", "nobody"],
]


async def test_commands_print_the_same_on_a_database_and_on_its_server(
    children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, url = await started(children, tmp_path)
    (tmp_path / "key").write_text(await key_of(server))
    monkeypatch.chdir(tmp_path)
    await asyncio.to_thread(_compare, url, f"sqlite:///{tmp_path / 'server.db'}")
    server.terminate()
    await server.succeeded()


def _told(result: Result) -> tuple[int, str, str]:
    """What a command printed, without the age of messages."""
    ages = r'"oldest_age_seconds": [0-9.]+| +[0-9]+ s$'
    text = re.sub(ages, "", result.stdout, flags=re.MULTILINE)
    return result.exit_code, text, result.stderr


def _compare(url: str, database: str) -> None:
    runner = CliRunner()
    there, here = ["--server", url, "--api-key", "@key"], ["--database", database]
    for words in CHANGES:
        done = runner.invoke(app, [*words, *there])
        assert (done.exit_code, done.stderr) == (0, ""), words
    for words in LOOKS:
        for form in ([], ["--json"]):
            local = runner.invoke(app, [*words, *form, *here])
            remote = runner.invoke(app, [*words, *form, *there])
            assert _told(remote) == _told(local), words
    environ = {"TICKWORK_URL": url, "TICKWORK_KEY": "@key"}
    found = runner.invoke(app, ["queues", "list", "--json"], env=environ)
    assert [load["name"] for load in json.loads(found.stdout)] == ["emails"]
    refused = runner.invoke(app, ["queues", "list", "--server", url, "--api-key", "tw_wrong"])
    assert refused.exit_code == 1
    assert "tw_wrong" not in refused.stderr
    keyless = runner.invoke(app, ["queues", "list", "--server", url])
    says = f"tickwork: {url} needs a key: give --api-key, or set TICKWORK_KEY\n"
    assert (keyless.exit_code, keyless.stderr) == (1, says)
    prompted = runner.invoke(
        app, ["usage", "--server", url, "--api-key", "-"], input=Path("key").read_text()
    )
    assert prompted.exit_code == 0

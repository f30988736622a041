"""`tickwork migrate` and `tickwork doctor`, on real databases."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from tests.kit.postgres import PostgresServer
from tickwork import tzdata_version
from tickwork.cli import app

RUNNER = CliRunner()


@pytest.mark.usefixtures("migrations")
def test_a_new_file_is_migrated_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    first = RUNNER.invoke(app, ["migrate", "--database", url, "--json"])
    shown = json.loads(first.stdout)
    assert shown["database"] == url
    versions = [step["version"] for step in shown["applied"]]
    assert versions == [*range(1, len(versions) + 1)] != []
    second = RUNNER.invoke(app, ["migrate", "--database", url])
    assert (second.exit_code, second.stdout) == (0, f"the schema of {url} is up to date\n")


def test_doctor_finds_no_fault_in_a_new_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    RUNNER.invoke(app, ["migrate", "--database", url])
    result = RUNNER.invoke(app, ["doctor", "--database", url, "--json"])
    levels = {finding["check"]: finding["level"] for finding in json.loads(result.stdout)}
    assert result.exit_code == 0
    assert levels["journal_mode"] == levels["synchronous"] == levels["schema"] == "ok"


@pytest.mark.parametrize(
    ("planned", "level"), [("1999z", "ok"), ("2999a", "warning")], ids=["older", "newer"]
)
def test_doctor_reports_the_zone_data_version(tmp_path: Path, planned: str, level: str) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    RUNNER.invoke(app, ["migrate", "--database", url])
    with closing(sqlite3.connect(tmp_path / "new.db")) as file, file:
        file.execute("UPDATE tickwork_shards SET tzdata = ? WHERE shard = 7", (planned,))
    result = RUNNER.invoke(app, ["doctor", "--database", url, "--json"])
    (found,) = [load for load in json.loads(result.stdout) if load["check"] == "zones"]
    assert result.exit_code == 0
    assert found["level"] == level
    assert str(tzdata_version.version()) in found["says"]
    assert (planned in found["says"]) == (level == "warning")


def test_doctor_reports_a_missing_schema(tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["doctor", "--database", f"sqlite:///{tmp_path}/none.db"])
    assert result.exit_code == 1
    assert f"run `tickwork migrate --database sqlite:///{tmp_path}/none.db`" in result.stdout


@pytest.mark.parametrize(
    ("free", "level", "code"),
    [(2**40, "ok", 0), (500 * 2**20, "warning", 0), (0, "bad", 1)],
    ids=["much", "little", "none"],
)
def test_doctor_reports_the_space_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, level: str, code: int
) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    RUNNER.invoke(app, ["migrate", "--database", url])
    usage = SimpleNamespace(free=free)
    monkeypatch.setattr("tickwork.store.sqlite.engine.doctor.disk_usage", lambda _: usage)
    result = RUNNER.invoke(app, ["doctor", "--database", url, "--json"])
    (found,) = [load for load in json.loads(result.stdout) if load["check"] == "disk"]
    assert (found["level"], result.exit_code) == (level, code)


def test_doctor_warns_of_a_server_that_does_not_sync(postgres_url: str) -> None:
    assert RUNNER.invoke(app, ["migrate", "--database", postgres_url]).exit_code == 0
    result = RUNNER.invoke(app, ["doctor", "--database", postgres_url, "--json"])
    found = {finding["check"]: finding for finding in json.loads(result.stdout)}
    assert found["schema"]["level"] == "ok"
    assert found["pooler"]["level"] == "ok"
    assert result.exit_code == 1
    assert "can lose accepted messages" in found["fsync"]["says"]


def test_a_durable_server_passes(durable_postgres: PostgresServer) -> None:
    url = durable_postgres.url
    assert RUNNER.invoke(app, ["migrate", "--database", url]).exit_code == 0
    result = RUNNER.invoke(app, ["doctor", "--database", url, "--json"])
    assert result.exit_code == 0
    assert not [load for load in json.loads(result.stdout) if load["level"] == "bad"]


@pytest.mark.parametrize("command", ["migrate", "doctor"])
def test_an_unreachable_server_is_one_line(command: str) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    result = RUNNER.invoke(app, [command, "--database", nowhere])
    assert result.exit_code == 1
    assert "the connection to PostgreSQL failed" in result.output


def test_a_password_is_not_shown(postgres_url: str) -> None:
    with_password = postgres_url.replace("@", ":hunter2@", 1)
    refused = RUNNER.invoke(app, ["queues", "list", "--database", with_password])
    assert f"run `tickwork migrate --database {postgres_url}`" in refused.stderr.replace("'", "")
    migrated = RUNNER.invoke(app, ["migrate", "--database", with_password])
    assert f"applied 0001_baseline.sql to {postgres_url}\n" in migrated.stdout
    assert "hunter2" not in refused.output + migrated.output


def test_a_url_may_say_postgres(postgres_url: str) -> None:
    short = postgres_url.replace("postgresql://", "postgres://")
    assert RUNNER.invoke(app, ["migrate", "--database", short]).exit_code == 0
    listed = RUNNER.invoke(app, ["queues", "list", "--database", short])
    assert (listed.exit_code, listed.stdout) == (0, "there are no queues\n")


@pytest.mark.parametrize("command", ["migrate", "doctor"])
def test_a_bad_url_is_bad_usage(command: str) -> None:
    result = RUNNER.invoke(app, [command, "--database", "mysql://x"])
    assert result.exit_code == 2
    assert "--database" in result.output

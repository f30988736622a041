"""`tickwork keys` and `tickwork tenants`."""

from __future__ import annotations

import pytest

from tests.cli.kit import Desk
from tickwork.core.api_key import parse_token


async def _nothing(_: object) -> None:
    """Makes the database."""


@pytest.fixture
def office(desk: Desk) -> Desk:
    desk.store(_nothing)
    return desk


def test_a_key_is_made_listed_rotated_and_revoked(office: Desk) -> None:
    token = office.answer("keys", "create", "ci", "--scope", "read", "--scope", "send").strip()
    parsed = parse_token(token)
    assert parsed is not None
    (listed,) = office.json("keys", "list")
    assert (listed["id"], listed["name"], listed["scopes"]) == (
        parsed.key_id,
        "ci",
        ["read", "send"],
    )
    table = office.answer("keys", "list")
    assert "read,send" in table
    assert parsed.secret not in table
    rotated = office.json("keys", "rotate", parsed.key_id, "--keep-seconds", "60")
    assert rotated["token"] != token
    assert rotated["token"].startswith(f"tw_{parsed.key_id}_")
    assert "rotating" in office.answer("keys", "list")
    assert office.json("keys", "revoke", parsed.key_id, "--yes")["revoked_at"]
    assert "revoked" in office.answer("keys", "list")
    refused = office.run("keys", "rotate", parsed.key_id)
    assert (refused.exit_code, "revoked" in refused.stderr) == (1, True)


def test_bad_input_names_the_option(office: Desk) -> None:
    for words, says in (
        (["create"], "NAME: is missing"),
        (["create", "ci"], "--scope: is missing"),
        (["create", "ci", "--scope", "raed"], "--scope: must be one of read"),
        (["create", "ci", "--scope", "admin", "--owner", "ada"], "--scope: a key with an owner"),
        (
            ["create", "ci", "--scope", "read", "--expires-at", "2020-01-01T00:00:00Z"],
            "--expires-at:",
        ),
        (["rotate"], "KEY is missing"),
        (["rotate", "nobody"], "there is no API key nobody"),
        (["rotate", "nobody", "--keep-seconds", "-1"], "--keep-seconds: must be from 0"),
        (["revoke", "nobody", "--yes"], "there is no API key nobody"),
        (["list", "--tenant", "nobody"], "there is no tenant nobody"),
    ):
        refused = office.run("keys", *words)
        assert refused.exit_code in (1, 2), words
        assert says in refused.stderr


def test_a_tenant_is_made_limited_suspended_and_resumed(office: Desk) -> None:
    office.answer("tenants", "create", "acme", "--weight", "3", "--owner-target", "queue:work")
    made = office.json("tenants", "show", "acme")
    assert (made["weight"], made["owner_targets"]) == (3, ["queue:work"])
    changed = office.json("tenants", "limits", "acme", "--schedules-max", "10")
    assert (changed["weight"], changed["schedules_max"]) == (3, 10)
    reset = office.json("tenants", "limits", "acme", "--weight", "2", "--reset")
    assert (reset["weight"], reset["schedules_max"], reset["owner_targets"]) == (2, None, [])
    assert office.json("tenants", "suspend", "acme", "--yes")["suspended"] is True
    assert "suspended" in office.answer("tenants", "list")
    assert office.json("tenants", "resume", "acme")["suspended"] is False
    assert [tenant["id"] for tenant in office.json("tenants", "list")] == ["acme", "default"]
    for words, says in (
        (["create", "acme"], "tenant acme exists already"),
        (["create", "other", "--weight", "0"], "--weight: must be from 1 to 1000"),
        (["limits", "acme", "--owner-target", "fax"], "owner_targets[0]: must be queue:NAME"),
        (["show", "nobody"], "there is no tenant nobody"),
    ):
        refused = office.run("tenants", *words)
        assert says in refused.stderr, words


def test_every_quota_of_a_tenant_has_an_option(office: Desk) -> None:
    given = {
        "--owner-min-interval-seconds": ("owner_min_interval_seconds", 300),
        "--owner-schedules-max": ("owner_schedules_max", 3),
        "--requests-per-second": ("requests_per_second", 2.5),
        "--queues-max": ("queues_max", 2),
        "--endpoints-max": ("endpoints_max", 4),
        "--subscriptions-max": ("subscriptions_max", 5),
        "--sessions-max": ("sessions_max", 6),
    }
    words = [word for option, (_, value) in given.items() for word in (option, str(value))]
    office.answer("tenants", "create", "acme", *words)
    made = office.json("tenants", "show", "acme")
    assert {name: made[name] for name, _ in given.values()} == dict(given.values())
    office.answer("tenants", "limits", "default", *words)
    names = [office.run("queues", "create", name).exit_code for name in ("a", "b", "c")]
    assert names == [0, 0, 1]
    refused = office.run("queues", "create", "c")
    assert "tenant default has 2 queues and may have 2; delete some, or raise" in refused.stderr
    assert "--endpoints-max: must be from 0 to 1000" in (
        office.run("tenants", "limits", "acme", "--endpoints-max", "1001").stderr
    )
    cron = ("*/2 * * * *", "--queue", "a", "--fields", '{"owner": "ada"}')
    told = office.run("schedules", "create", *cron).stderr
    assert "the minimum here is 300 s" in told


def test_the_audit_log_shows_what_commands_changed(office: Desk) -> None:
    assert "there are no changes" in office.answer("audit")
    office.answer("keys", "create", "ci", "--scope", "read")
    office.answer("tenants", "limits", "default", "--weight", "3")
    changed, created = office.json("audit")
    assert (created["action"], changed["action"]) == ("key.create", "tenant.limits")
    assert created["actor"].startswith("command line, ")
    assert "tenant.limits" in office.answer("audit", "--limit", "1")


def test_a_file_has_no_readers(desk: Desk) -> None:
    desk.answer("migrate")
    for words in (["list"], ["grant", "reports", "--tenant", "default"], ["revoke", "reports"]):
        result = desk.run("readers", *words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "--database: must be a PostgreSQL server" in result.stderr
    result = desk.run("readers", "grant", "reports")
    assert result.exit_code == 2
    assert "--tenant" in result.stderr


MAKING = [
    ("keys", "create", "ci", "--scope", "read"),
    ("tenants", "create", "acme"),
    ("limits", "put", "partner", "--rate", "5"),
    ("queues", "create", "emails"),
]
LOOKING = [
    ("keys", "list"),
    ("tenants", "list"),
    ("tenants", "suspend", "default", "--yes"),
    ("limits", "list"),
    ("queues", "send", "emails", "1"),
]


@pytest.mark.parametrize("words", MAKING)
def test_what_needs_nothing_else_is_made_before_the_first_start(
    desk: Desk, words: tuple[str, ...]
) -> None:
    desk.answer(*words)
    assert (desk.folder / "tickwork.db").exists()


@pytest.mark.parametrize("words", LOOKING)
def test_any_other_command_makes_no_database(desk: Desk, words: tuple[str, ...]) -> None:
    refused = desk.run(*words)
    assert (refused.exit_code, "does not exist" in refused.stderr) == (1, True)
    assert not (desk.folder / "tickwork.db").exists()

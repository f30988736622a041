"""Settings: flags over environment over file over defaults, and errors by name."""

from __future__ import annotations

from collections.abc import Mapping
from email.headerregistry import AddressHeader
from email.message import EmailMessage
from pathlib import Path
from typing import Any, cast

import pytest
from litestar.testing import TestClient

from tests.kit.api import bearer, new_key_of
from tickwork import InvalidInput
from tickwork.wiring import Role, Settings, load_settings
from tickwork.wiring.deliveries import webhook_deliveries
from tickwork.wiring.server import build_api

FILE = """
[server]
host = "10.0.0.1"
port = 1111
roles = ["api"]
min_interval_seconds = 5
"""


def load(
    folder: Path,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    file: str | None = None,
) -> Settings:
    if file is not None:
        (folder / "tickwork.toml").write_text(file)
    return load_settings(flags or {}, environ=environ or {}, folder=folder)


def test_the_defaults_are_for_a_laptop(tmp_path: Path) -> None:
    assert load(tmp_path) == Settings(
        host="127.0.0.1",
        port=8080,
        database="sqlite:///tickwork.db",
        roles=frozenset({Role.API, Role.SCHEDULER, Role.WORKER}),
        min_interval_seconds=60,
    )


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    environ = {"TICKWORK_PORT": "2222", "TICKWORK_ROLES": "worker, api", "TICKWORK_HOST": ""}
    settings = load(tmp_path, {"port": "3333", "roles": None}, environ, FILE)
    assert settings.port == 3333
    assert settings.roles == {Role.WORKER, Role.API}
    assert settings.host == "10.0.0.1"
    assert settings.min_interval_seconds == 5


@pytest.mark.parametrize("seconds", [0, "0", 1.5, "1.5", 86_400])
def test_drain_seconds_may_be_a_number_or_text(tmp_path: Path, seconds: float | str) -> None:
    assert load(tmp_path, {"drain_seconds": seconds}).drain_seconds == float(seconds)
    assert load(tmp_path).drain_seconds == 30.0


@pytest.mark.parametrize("url", ["sqlite:///a.db", "sqlite:////var/a.db", "postgresql://u:p@h/d"])
def test_sqlite_and_postgresql_urls_are_accepted(tmp_path: Path, url: str) -> None:
    assert load(tmp_path, environ={"TICKWORK_DATABASE": url}).database == url


@pytest.mark.parametrize(
    "url",
    ["sqlite://a.db", "sqlite:///", "sqlite:a.db", "postgresql://", "mysql://u:secret@h/d", "a.db"],
)
def test_another_url_is_refused_without_repeating_it(tmp_path: Path, url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        load(tmp_path, environ={"TICKWORK_DATABASE": url})
    assert refused.value.errors[0].field == "TICKWORK_DATABASE"
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("flags", "environ", "file", "name"),
    [
        ({"port": "65536"}, {}, None, "--port"),
        ({"host": "a b"}, {}, None, "--host"),
        ({"roles": ""}, {}, None, "--roles"),
        ({}, {"TICKWORK_PORT": "-1"}, None, "TICKWORK_PORT"),
        ({}, {"TICKWORK_PORT": "٣"}, None, "TICKWORK_PORT"),
        ({}, {"TICKWORK_ROLES": "api,king"}, None, "TICKWORK_ROLES"),
        ({}, {"TICKWORK_MIN_INTERVAL_SECONDS": "0"}, None, "TICKWORK_MIN_INTERVAL_SECONDS"),
        ({"drain_seconds": "soon"}, {}, None, "--drain-seconds"),
        ({"drain_seconds": "nan"}, {}, None, "--drain-seconds"),
        ({}, {"TICKWORK_DRAIN_SECONDS": "-1"}, None, "TICKWORK_DRAIN_SECONDS"),
        ({}, {}, "[server]\ndrain_seconds = true", "server.drain_seconds in tickwork.toml"),
        ({}, {}, "[server]\nport = true", "server.port in tickwork.toml"),
        ({}, {}, "[server]\nroles = []", "server.roles in tickwork.toml"),
        ({}, {}, "[server]\nroles = [1]", "server.roles in tickwork.toml"),
        ({}, {}, "[server]\ncolour = 'red'", "server.colour in tickwork.toml"),
        ({}, {}, "[queue]\nname = 'a'", "tickwork.toml"),
        ({}, {}, "server = 1", "tickwork.toml"),
        ({}, {}, "not toml", "tickwork.toml"),
    ],
)
def test_an_error_names_a_setting_as_it_was_given(
    tmp_path: Path,
    flags: dict[str, object],
    environ: dict[str, str],
    file: str | None,
    name: str,
) -> None:
    with pytest.raises(InvalidInput) as refused:
        load(tmp_path, flags, environ, file)
    assert [error.field for error in refused.value.errors] == [name]


def test_all_errors_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        load(tmp_path, {"port": "x"}, {"TICKWORK_ROLES": "y"}, "[server]\nhost = 1")
    assert len(refused.value.errors) == 3


@pytest.mark.parametrize(
    "sender",
    ["a@b.c", "<a@b.c>", "Shop Inc. <a@b.c>", "Café <tickwork@localhost>", '"A, B" <a@b.c>'],
)
def test_the_sender_of_email_is_one_address(tmp_path: Path, sender: str) -> None:
    settings = load(tmp_path, environ={"TICKWORK_EMAIL_FROM": sender})
    message = EmailMessage()
    message["From"] = settings.email_from
    header = message["From"]
    assert isinstance(header, AddressHeader)
    assert [address.domain for address in header.addresses] == [sender.strip(">").partition("@")[2]]


@pytest.mark.parametrize(
    "sender",
    [
        "not an address",
        "a@b.c, d@e.f",
        "A, B <a@b.c>",
        "Shop <>",
        "Shop <a@b.c",
        "a@b.c>",
        "a@[",
        "to: a@b.c;",
        '"A" "B" <a@b.c>',
        "A\nBcc: d@e.f <a@b.c>",
        "A\n <a@b.c>",
    ],
)
def test_another_sender_of_email_is_refused_at_the_start(tmp_path: Path, sender: str) -> None:
    with pytest.raises(InvalidInput, match="must be one email address") as refused:
        load(tmp_path, environ={"TICKWORK_EMAIL_FROM": sender})
    assert [error.field for error in refused.value.errors] == ["TICKWORK_EMAIL_FROM"]


@pytest.mark.parametrize(("seconds", "status"), [(60, 422), (10, 200)])
def test_the_minimum_interval_reaches_the_preview(
    tmp_path: Path, seconds: int, status: int
) -> None:
    database = f"sqlite:///{tmp_path / 'server.db'}"
    settings = Settings(database=database, min_interval_seconds=seconds)
    headers = bearer(new_key_of(settings))
    with TestClient(build_api(settings)) as client:
        body = {"cron_expr": "*/10 * * * * *"}
        answer = client.post("/v1/schedules/preview", json=body, headers=headers)
        assert answer.status_code == status


def test_a_node_has_permits_for_its_deliveries_at_once_and_a_tenth_for_quiet_tenants() -> None:
    made = webhook_deliveries(cast(Any, None), Settings(delivery_concurrency=70))
    assert made is not None
    to_targets, to_endpoints, _ = made[1]
    assert (to_targets.max_concurrency, to_endpoints.max_concurrency) == (77, 77)


@pytest.mark.parametrize(
    ("roles", "shown"),
    [
        ({Role.API}, ["api"]),
        # A bare server has no handlers, but it delivers webhooks and email.
        ({Role.API, Role.SCHEDULER, Role.WORKER}, ["api", "scheduler", "worker"]),
    ],
)
def test_a_server_is_a_node_with_its_roles(
    tmp_path: Path, roles: set[Role], shown: list[str]
) -> None:
    database = f"sqlite:///{tmp_path / 'server.db'}"
    settings = Settings(database=database, roles=frozenset(roles))
    headers = bearer(new_key_of(settings))
    with TestClient(build_api(settings)) as client:
        (node,) = client.get("/v1/cluster", headers=headers).json()["nodes"]
        assert (node["roles"], node["is_alive"]) == (shown, True)


@pytest.mark.parametrize(("allowed", "status"), [(("queue:q",), 201), ((), 403)])
def test_owners_may_target_what_the_settings_list(
    tmp_path: Path, allowed: tuple[str, ...], status: int
) -> None:
    database = f"sqlite:///{tmp_path / 'server.db'}"
    settings = Settings(database=database, owner_targets=allowed)
    key, ada = new_key_of(settings), new_key_of(settings, owner="ada", scopes=["manage"])
    body = {"cron_expr": "@daily", "target": {"type": "queue", "queue": "q"}}
    with TestClient(build_api(settings)) as client:
        assert client.put("/v1/queues/q", json={}, headers=bearer(key)).status_code == 201
        made = client.post("/v1/schedules", json=body, headers=bearer(ada))
        assert made.status_code == status


JWT_FILE = """
[[jwt]]
issuer = "https://login.example.com"
audience = "tickwork"
algorithm = "RS256"
jwks_url = "https://login.example.com/keys"
tenants = ["acme", "other"]
tenant_claim = "org"
"""


def test_issuers_are_read_from_the_file_and_the_environment(tmp_path: Path) -> None:
    (issuer,) = load(tmp_path, {}, {}, JWT_FILE).jwt
    assert (issuer.issuer, issuer.tenants) == ("https://login.example.com", ("acme", "other"))
    environ = {
        "TICKWORK_JWT_ISSUER": "us",
        "TICKWORK_JWT_AUDIENCE": "tickwork",
        "TICKWORK_JWT_ALGORITHM": "HS256",
        "TICKWORK_JWT_SECRET": "s" * 32,
        "TICKWORK_JWT_TENANTS": "default",
    }
    (issuer,) = load(tmp_path, {}, environ, JWT_FILE).jwt
    assert (issuer.issuer, issuer.owner_claim) == ("us", "sub")
    assert "sss" not in repr(issuer)
    short = {name: environ[name] for name in environ if not name.endswith(("ALGORITHM", "TENANTS"))}
    assert load(tmp_path, {}, short, JWT_FILE).jwt == (issuer,)
    del short["TICKWORK_JWT_SECRET"]
    (issuer,) = load(tmp_path, {}, {**short, "TICKWORK_JWT_JWKS_URL": "https://a.b/keys"}, "").jwt
    assert (issuer.algorithm, issuer.tenants) == ("RS256", ("default",))
    with pytest.raises(InvalidInput, match="TICKWORK_JWT_TENANTS"):
        claimed = {"TICKWORK_JWT_TENANTS": "", "TICKWORK_JWT_TENANT_CLAIM": "org"}
        load(tmp_path, {}, {**environ, **claimed}, "")


def test_targets_of_owners_are_queues_unless_they_say_otherwise(tmp_path: Path) -> None:
    environ = {"TICKWORK_OWNER_TARGETS": "reminders, email,webhook:https://example.com/in"}
    found = load(tmp_path, {}, environ, "").owner_targets
    assert found == ("queue:reminders", "email", "webhook:https://example.com/in")
    with pytest.raises(InvalidInput, match="TICKWORK_OWNER_TARGETS: must be queue:NAME"):
        load(tmp_path, {}, {"TICKWORK_OWNER_TARGETS": "fax:12"}, "")


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        (("audience", "audience2"), "jwt[0].audience2"),
        (('audience = "tickwork"\n', ""), "jwt[0].audience"),
        (('"RS256"', '"none"'), "jwt[0].algorithm"),
        (('"RS256"', '"HS256"'), "jwt[0].algorithm"),
        (('jwks_url = "https://', 'jwks_url = "http://'), "jwt[0].jwks_url"),
        (('tenant_claim = "org"\n', ""), "jwt[0].tenant_claim"),
        (('["acme", "other"]', "[]"), "jwt[0].tenants"),
        (("[[jwt]]", "[jwt]"), "tickwork.toml"),
        ((JWT_FILE, JWT_FILE * 2), "jwt"),
    ],
)
def test_an_invalid_issuer_is_refused(tmp_path: Path, changed: tuple[str, str], name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        load(tmp_path, {}, {}, JWT_FILE.replace(*changed))
    assert name in [error.field for error in refused.value.errors]


def test_a_short_secret_of_an_issuer_is_refused_and_not_shown(tmp_path: Path) -> None:
    environ = {
        "TICKWORK_JWT_ISSUER": "us",
        "TICKWORK_JWT_AUDIENCE": "tickwork",
        "TICKWORK_JWT_ALGORITHM": "HS256",
        "TICKWORK_JWT_SECRET": "hunter2",
        "TICKWORK_JWT_TENANTS": "default",
    }
    with pytest.raises(InvalidInput) as refused:
        load(tmp_path, {}, environ, "")
    assert [error.field for error in refused.value.errors] == ["TICKWORK_JWT_SECRET"]
    assert "hunter2" not in str(refused.value)

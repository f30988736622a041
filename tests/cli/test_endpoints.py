"""`tickwork endpoints`, `events`, `deliveries` and `alerts`: one way through all of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest
from litestar.testing import TestClient
from prometheus_client import CollectorRegistry

from tests.cli.kit import Desk
from tests.conformance.endpoint_acts import attempt, claimed_one
from tests.kit.api import bearer, new_key_of
from tickwork.channel.secrets import new_key
from tickwork.core.delivery.breaker import FAILURES_IN_ROW_MAX
from tickwork.facade.app import Tickwork
from tickwork.ops.schedules.why_answers import iso_second
from tickwork.settings import Settings
from tickwork.store.contract import Store
from tickwork.wiring.server import build_api

URL = "https://example.com/hook"
RECOVER = ("deliveries", "recover", "billing", "--since", "2020-01-01T00:00:00Z", "--yes")


@pytest.fixture
def billing(desk: Desk) -> Desk:
    """An endpoint, and an event for it. Creating it makes the database."""
    made = desk.json("endpoints", "create", "billing", "--url", URL, "--type", "order.*")
    assert made["secret"].startswith("whsec_")
    desk.answer("events", "publish", "order.paid", '{"id": 1}')
    return desk


def test_an_endpoint_is_listed_changed_disabled_and_deleted(billing: Desk) -> None:
    assert "billing" in billing.answer("endpoints", "list")
    changed = billing.json("endpoints", "update", "billing", "--rate-per-second", "5", "--ordered")
    assert changed["rate_per_second"] == 5
    assert changed["ordered"] is True
    further = '{"retry_seconds": [5, 60], "method": "PUT", "rate_per_second": null}'
    changed = billing.json("endpoints", "update", "billing", "--fields", further)
    assert (changed["retry_seconds"], changed["method"]) == ([5, 60], "PUT")
    assert changed["rate_per_second"] is None
    changed = billing.json("endpoints", "update", "billing", "--first-byte-seconds", "5")
    assert changed["first_byte_seconds"] == 5
    refused = billing.run("endpoints", "update", "billing", "--first-byte-seconds", "31")
    assert "--first-byte-seconds: must be at most timeout_seconds (30), not 31" in refused.stderr
    billing.answer("endpoints", "disable", "billing", "--reason", "too slow")
    assert "too slow" in billing.answer("endpoints", "show", "billing")
    billing.answer("endpoints", "enable", "billing")
    assert "status: active" in billing.answer("endpoints", "show", "billing")
    assert billing.json("endpoints", "stats", "billing")["waiting"] == 1
    assert billing.answer("endpoints", "rotate-secret", "billing").startswith("whsec_")
    gone = billing.json("endpoints", "delete", "billing", "--yes")
    assert gone["waiting"] == 1
    assert billing.json("endpoints", "list") == []


def test_why_explains_a_delivery_and_its_endpoint(billing: Desk) -> None:
    (delivery,) = billing.json("deliveries", "list")
    billing.answer("endpoints", "disable", "billing", "--reason", "too slow")
    lines = billing.answer("why", delivery["id"]).splitlines()
    waits = "waits: endpoint billing is disabled (too slow)."
    assert lines[0] == f"The delivery of order.paid to endpoint billing {waits}"
    assert [line.partition(":")[0] for line in lines[1:]] == ["since", "until", "next", "trace"]
    assert "`tickwork endpoints enable billing`" in lines[3]
    assert billing.json("why", delivery["id"][-8:])["code"] == "endpoint_disabled"
    assert billing.answer("why", "billing").startswith("Endpoint billing is disabled (too slow).")
    assert "trace" not in billing.answer("why", "billing")
    assert billing.json("why", "billing")["kind"] == "endpoint"


@pytest.fixture
def sealed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """An endpoint whose secret was encrypted with a key that this shell does not have; nothing that
    is asked here makes a key file."""
    monkeypatch.setenv("TICKWORK_SECRET_KEY", new_key())
    desk.answer("endpoints", "create", "billing", "--url", URL, "--type", "order.*")
    monkeypatch.delenv("TICKWORK_SECRET_KEY")
    yield desk
    assert not [*desk.folder.glob("*.key")]


def test_why_without_the_key_does_not_judge_the_secrets(sealed: Desk) -> None:
    asked = sealed.answer("why", "billing")
    assert asked.startswith("Endpoint billing takes deliveries.")
    key = "TICKWORK_SECRET_KEY: is missing, and there is no key file tickwork.db.key"
    assert f"Whether its secrets can be read is unknown here: {key}." in asked
    assert "delete" not in asked


async def test_an_app_asked_without_the_key_does_not_judge_the_secrets(sealed: Desk) -> None:
    app = Tickwork(sealed.url)
    assert (await app.why("billing")).code == "active"
    await app.close()


def test_an_api_asked_without_the_key_does_not_judge_the_secrets(sealed: Desk) -> None:
    settings = Settings(database=sealed.url)
    headers = bearer(new_key_of(settings))
    with TestClient(build_api(settings, registry=CollectorRegistry())) as client:
        asked = client.get("/v1/endpoints/billing/why", headers=headers).json()
    assert asked["code"] == "active"


def test_an_endpoint_may_have_no_types_or_all(billing: Desk) -> None:
    create = ("endpoints", "create", "resizer", "--url", URL)
    refused = billing.run(*create)
    assert refused.exit_code == 2
    assert "--type '*' for all published events, or --no-types for none" in refused.stderr
    assert "give either --type or --no-types" in billing.run(
        *create, "--type", "a", "--no-types"
    ).stderr  # fmt: skip
    assert billing.json(*create, "--no-types")["types"] == []
    assert "none" in billing.answer("endpoints", "list").splitlines()[-1].split()
    billing.answer("events", "publish", "order.paid", "1")
    assert billing.json("endpoints", "stats", "resizer")["waiting"] == 0
    update = ("endpoints", "update", "resizer")
    assert billing.json(*update, "--type", "*")["types"] == ["*"]
    billing.answer("events", "publish", "order.paid", "2")
    assert billing.json("endpoints", "stats", "resizer")["waiting"] == 1
    assert billing.json(*update, "--no-types")["types"] == []


def test_show_has_all_settings_of_an_endpoint(billing: Desk) -> None:
    fields = (
        '{"description": "the books", "headers": {"x-a": "1"}, "retry_seconds": [5, 60],'
        ' "permanent_statuses": [404, 422], "timeout_seconds": 10}'
    )
    billing.answer(
        "endpoints", "update", "billing", "--fields", fields, "--no-types", "--rate-per-second", "5"
    )
    lines = billing.answer("endpoints", "show", "billing").splitlines()
    for line in (
        "types: none, so it gets no published events",
        "description: the books",
        "headers: x-a=1",
        "signature: v1",
        "rate: 5 a second on each node",
        "timeout: 10 s",
        "retries: after 5, 60 s",
        "not retried: 404, 422",
    ):
        assert line in lines


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--fields", '{"name": "other"}'), "name: is not a known field; the name"),
        (("--fields", '{"self": 1}'), "self: is not a known field; use concurrency, "),
        (("--url", URL, "--fields", f'{{"url": "{URL}/b"}}'), "url: is given by an option and in"),
        (("--fields", "[1]"), '--fields: must be an object such as {"retry_seconds": [5, 60]}'),
    ],
)
@pytest.mark.parametrize("command", ["create", "update"])
def test_fields_of_an_endpoint_are_refused_in_a_line(
    billing: Desk, command: str, words: tuple[str, ...], told: str
) -> None:
    refused = billing.run("endpoints", command, "billing", "--type", "a", *words)
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"tickwork: {told}")
    assert refused.stderr.count("\n") == 1


def test_times_are_shown_in_milliseconds(billing: Desk) -> None:
    async def deliver(store: Store) -> None:
        await attempt(store, await claimed_one(store), took_seconds=1 / 3)

    billing.store(deliver)
    assert "p50_seconds      0.333\n" in billing.answer("endpoints", "stats", "billing")


def test_deliveries_name_their_endpoint(billing: Desk) -> None:
    (delivery,) = billing.json("deliveries", "list")
    assert "history" not in delivery
    heading, row = billing.answer("deliveries", "list").splitlines()
    assert heading.split()[:2] == ["delivery", "endpoint"]
    assert row.split()[:2] == [delivery["id"], "billing"]
    shown = billing.answer("deliveries", "show", delivery["id"])
    assert f"endpoint: billing ({delivery['endpoint_id']})\n" in shown


def test_a_published_event_has_an_id_that_is_told(billing: Desk) -> None:
    words = ("events", "publish", "order.paid", "{}")
    told = billing.answer(*words, "--event-id", "order-17")
    assert told == "event order-17 of type order.paid goes to 0 queues and 1 endpoint\n"
    assert billing.json(*words)["event_id"].startswith("evt_")


def test_a_span_that_ends_before_it_begins_is_refused(billing: Desk) -> None:
    refused = billing.run(*RECOVER, "--until", "2019-01-01T00:00:00Z")
    assert refused.exit_code == 2
    assert refused.stderr == "tickwork: --until: must be after --since\n"


def test_a_schedule_calls_an_endpoint(billing: Desk) -> None:
    words = ("schedules", "create", "@daily", "--endpoint")
    made = billing.json(*words, "billing")
    assert made["target"] == {"type": "webhook", "endpoint": "billing"}
    assert "billing" in billing.answer("schedules", "list")
    refused = billing.run(*words, "biling")
    assert refused.exit_code == 2
    assert "--endpoint: there is no endpoint 'biling'; did you mean 'billing'?" in refused.stderr


def test_what_was_published_is_found_by_its_short_id_and_sent_again(billing: Desk) -> None:
    (waiting,) = billing.json("deliveries", "list", "--undelivered", "--endpoint", "billing")
    assert (waiting["type"], waiting["status"]) == ("order.paid", "waiting")
    shown = billing.answer("deliveries", "show", waiting["id"][-8:])
    assert "status: waiting, 0 attempts" in shown
    again = billing.answer("deliveries", "resend", waiting["id"][-8:])
    assert again == f"{waiting['id']} is sent again\n"
    assert waiting["id"].startswith("dlv_")
    recovered = billing.json(*RECOVER)
    at_once = {"waits_for": None, "waits_until": None}
    assert recovered == {"endpoint": "billing", "resent": 1} | at_once
    resent = billing.json("deliveries", "resend", waiting["id"])
    assert resent == {"delivery": waiting["id"], "resent": True} | at_once


def test_what_is_sent_again_to_a_disabled_endpoint_says_that_it_waits(billing: Desk) -> None:
    open_breaker(billing)
    billing.answer("endpoints", "disable", "billing")
    shown = billing.answer("endpoints", "show", "billing")
    assert "status: disabled" in shown
    assert "next attempt" not in shown
    assert billing.json("endpoints", "show", "billing")["health"]["open_until"] is None
    (waiting,) = billing.json("deliveries", "list")
    text = billing.answer("deliveries", "resend", waiting["id"])
    enable = "Deliveries go on when it is enabled: `tickwork endpoints enable billing`."
    why = f"Endpoint billing is disabled (disabled by hand). {enable}"
    assert text == f"{waiting['id']} waits. {why}\n"
    assert billing.answer(*RECOVER) == f"1 delivery waits. {why}\n"
    told = billing.json("deliveries", "resend", waiting["id"])
    assert (told["waits_for"], told["waits_until"]) == ("endpoint_disabled", None)


def test_what_is_sent_again_while_the_breaker_is_open_says_until_when_it_waits(
    billing: Desk,
) -> None:
    open_breaker(billing)
    health = billing.json("endpoints", "show", "billing")["health"]
    until = datetime.fromisoformat(health["open_until"])
    assert "next attempt" in billing.answer("endpoints", "show", "billing")
    (waiting,) = billing.json("deliveries", "list")
    text = billing.answer("deliveries", "resend", waiting["id"])
    why = "The breaker of endpoint billing is open: 5 attempts in a row failed."
    enable = "`tickwork endpoints enable billing`"
    tried = f"One delivery is tried at {iso_second(until)}; if it arrives, the others follow when"
    told = f"{why} {tried} they are due; {enable} goes on at once.\n"
    assert text == f"{waiting['id']} waits. {told}"
    assert billing.answer(*RECOVER) == f"1 delivery waits. {told}"
    assert enable in billing.answer("why", "billing")
    assert enable in billing.answer("endpoints", "show", "billing")
    told = billing.json(*RECOVER)
    assert (told["waits_for"], told["waits_until"]) == ("breaker_open", health["open_until"])
    billing.answer("endpoints", "enable", "billing")
    assert billing.answer(*RECOVER) == "1 delivery is sent again, 10 a second\n"


def open_breaker(desk: Desk) -> None:
    """Lets the waiting delivery fail until the breaker of its endpoint opens."""

    async def fail(store: Store) -> None:
        for _ in range(FAILURES_IN_ROW_MAX):
            await attempt(store, await claimed_one(store), code=500)

    desk.store(fail)


def test_an_endpoint_is_signed_with_a_private_key_whose_public_key_is_shown(billing: Desk) -> None:
    words = ("--url", URL, "--type", "a", "--signature", "v1a")
    made = billing.json("endpoints", "create", "other", *words)
    assert made["secret"].startswith("whpk_")
    assert billing.answer("endpoints", "public-keys", "other").strip() == made["secret"]
    new = billing.answer("endpoints", "rotate-secret", "other").strip()
    shown = billing.json("endpoints", "public-keys", "other")
    assert shown == {"endpoint": "other", "public_keys": [new, made["secret"]]}
    assert "signature: v1a" in billing.answer("endpoints", "show", "other")
    text = billing.answer("endpoints", "create", "third", *words)
    assert text.startswith("created third; its public key:\nwhpk_")
    refused = billing.run("endpoints", "create", "fourth", *words[:-1], "v2")
    assert (refused.exit_code, "--signature" in refused.stderr) == (2, True)
    assert billing.run("endpoints", "public-keys", "billing").exit_code == 1


def test_bad_input_names_the_option(billing: Desk) -> None:
    for command in (
        ("endpoints", "create", "other", "--url", "http://10.0.0.1/", "--type", "a"),
        ("endpoints", "create", "other", "--url", URL),
        ("endpoints", "update", "billing"),
        ("endpoints", "show", "billng"),
        ("deliveries", "list", "--status", "lost"),
        ("alerts", "set"),
        ("alerts", "set", "--email", "nobody"),
    ):
        assert billing.run(*command).exit_code in (1, 2), command


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("listen", "--port", "99999"), "--port: bind(): port must be 0-65535"),
        (("listen", "--forward", "localhost"), "--forward: must be a URL such as http://"),
        (("listen", "--secret", "foo"), "--secret: must be a secret whsec_… or a public key whpk_"),
        (("firings", "complete"), "--token is missing"),
    ],
)
def test_what_a_receiver_gives_is_checked_at_once(
    desk: Desk, words: tuple[str, ...], told: str
) -> None:
    refused = desk.run(*words)
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"tickwork: {told}")


def test_alerts_are_set_before_anything_else(desk: Desk) -> None:
    desk.answer("alerts", "set", "--email", "ops@example.com")
    assert "ops@example.com" in desk.answer("alerts", "show")


def test_alerts_are_set_shown_and_cleared(billing: Desk) -> None:
    billing.answer("alerts", "set", "--slack", "https://hooks.example.com/T0/secret")
    assert "https://hooks.example.com/***" in billing.answer("alerts", "show")
    assert "secret" not in billing.answer("alerts", "show")
    assert "nowhere" in billing.answer("alerts", "clear")
    refused = billing.run("alerts", "set", "--email", "a@example.com", "--slack", URL)
    options = "--email, --webhook, --slack, --discord"
    assert refused.stderr == f"tickwork: give exactly one of {options}\n"

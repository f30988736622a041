"""Secrets stay secret: receivers that repeat a request, files that others could read, settings that
are wrong, and answers that name the inside of a network."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web
from aiosmtpd.smtp import AuthResult
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from prometheus_client import CollectorRegistry

from tests.channel.mail_server import Mailbox, mail_server
from tests.channel.receiver import served, wire
from tests.kit.api import bearer, in_process, new_key
from tests.kit.soak import examples
from tickwork.channel.email import EmailChannel
from tickwork.channel.guard import Guard
from tickwork.channel.relay import Relay
from tickwork.channel.webhook import WebhookChannel, explained
from tickwork.core.delivery.email_provider import PROVIDERS, provider_request
from tickwork.core.delivery.endpoint import EndpointSettings
from tickwork.core.delivery.endpoint_request import Keys, endpoint_request
from tickwork.core.delivery.outcome import Delivery, excerpt
from tickwork.core.delivery.redact import FRAGMENT_CHARACTERS, header_secrets
from tickwork.core.delivery.request import EmailRequest, WebhookRequest
from tickwork.core.delivery.sealed import secrets_in
from tickwork.core.delivery.target import ChatTarget, WebhookTarget
from tickwork.ops.keys import create_first_key
from tickwork.store.shared.archive import Archive, open_archive
from tickwork.wiring import Settings, examine, open_store, secret_box
from tickwork.wiring.server import build_api

AT = datetime(2027, 1, 1, tzinfo=UTC)
KEY = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
WORDS = "correct/horse=battery+staple"
BASIC = b64encode(f"shopuser:{WORDS}".encode()).decode()
SLACK = ("T0123ABCD", "B9876ZYXW", "Xk2mQ7sN5vR8tY1uW4zA6bC3")
TELEGRAM = "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"
DISCORD = ("112233445566778899", "kd83JfLsPq72mXbNz0QwErTyUiOp")

EMAIL = EmailRequest(
    sender="a@example.com", to=["b@example.com"], subject="s", message_id="<1>", sent_at=AT
)
WEBHOOK = WebhookTarget(
    url=f"https://example.com/hook?mode=1&key={quote(KEY[::-1], safe='')}&sig=a%2Fb%3Dcd%2Bef12",
    headers={
        "Authorization": f"Bearer {KEY}",
        "X-Proxy": f"Basic {BASIC}",
        "Cookie": f"theme=dark; session={KEY[3:]}",
    },
)
REQUESTS: dict[str, tuple[Any, list[str]]] = {
    "webhook": (WEBHOOK, [KEY, KEY[::-1], BASIC, WORDS, "shopuser", "a%2Fb%3Dcd%2Bef12",
                          "a/b=cd+ef12"]),
    "slack": (
        ChatTarget(service="slack", url=f"https://hooks.slack.com/services/{'/'.join(SLACK)}",
                   text="hi"),
        [*SLACK],
    ),
    "telegram": (
        ChatTarget(service="telegram", url=f"https://api.telegram.org/bot{TELEGRAM}/sendMessage",
                   text="hi", chat_id="1"),
        [TELEGRAM, TELEGRAM.partition(":")[2]],
    ),
    "discord": (
        ChatTarget(service="discord", url=f"https://discord.com/api/webhooks/{'/'.join(DISCORD)}",
                   text="hi"),
        [*DISCORD],
    ),
}  # fmt: skip


async def echo(request: web.BaseRequest) -> web.Response:
    """Repeats a request as servers do that are being debugged: whole, in parts, decoded."""
    authorization = request.headers.get("Authorization", "")
    told = {
        "path": request.raw_path,
        "segments": request.path.split("/"),
        "query": dict(request.query),
        "headers": dict(request.headers),
        "credentials": authorization.partition(" ")[2],
        "start": authorization[:20],
    }
    return web.Response(status=500, text=json.dumps(told))


@pytest.fixture
async def channel() -> AsyncIterator[WebhookChannel]:
    made = WebhookChannel(Guard(["127.0.0.1/32"]))
    yield made
    await made.close()


def shows(delivery: Delivery, secret: str) -> Iterator[str]:
    """The parts of a secret that can be read in what is kept of a delivery."""
    for text in (delivery.excerpt or "", delivery.error or ""):
        for at in range(len(secret) - FRAGMENT_CHARACTERS + 1):
            if secret[at : at + FRAGMENT_CHARACTERS] in text:
                yield secret[at : at + FRAGMENT_CHARACTERS]
        if len(secret) < FRAGMENT_CHARACTERS and secret in text:
            yield secret


def to_here(target: Any, base: str) -> WebhookRequest:
    """The request of a target, sent to this machine."""
    rest = target.url.partition("://")[2].partition("/")[2]
    return WebhookRequest(
        url=f"{base.rstrip('/')}/{rest}",
        headers=getattr(target, "headers", {}),
        body=b"{}",
        secrets=secrets_in(target),
    )


@pytest.mark.parametrize("kind", REQUESTS)
async def test_a_receiver_that_repeats_a_request_shows_no_part_of_its_secrets(
    channel: WebhookChannel, kind: str
) -> None:
    target, secrets = REQUESTS[kind]
    async with served(echo) as base:
        delivery = await channel.deliver(to_here(target, base))
    assert delivery.code == 500
    assert delivery.excerpt is not None
    assert '"path"' in delivery.excerpt
    assert [part for secret in secrets for part in shows(delivery, secret)] == []


async def test_the_secrets_of_an_endpoint_are_not_repeated_in_parts(
    channel: WebhookChannel,
) -> None:
    keys = Keys((b"k" * 24,), {"Authorization": f"Basic {BASIC}", "X-Key": KEY})
    async with served(echo) as base:
        request = endpoint_request(
            EndpointSettings(url=f"{base}/hook?key={KEY[::-1]}", types=("a",)),
            keys,
            webhook_id="msg_1",
            body=b"{}",
            headers={},
            sent_at=AT,
        )
        delivery = await channel.deliver(request)
    wanted = [BASIC, WORDS, "shopuser", KEY, KEY[::-1]]
    assert [part for secret in wanted for part in shows(delivery, secret)] == []


@pytest.mark.parametrize(
    "url",
    [
        f"https://hooks.slack.com/services/{'/'.join(SLACK)}",
        f"https://discord.com/api/webhooks/{'/'.join(DISCORD)}",
        f"https://api.telegram.org/bot{TELEGRAM}/sendMessage",
    ],
)
def test_a_hook_of_a_chat_service_is_secret_as_a_plain_webhook_and_as_an_endpoint_too(
    url: str,
) -> None:
    endpoint = endpoint_request(
        EndpointSettings(url=url, types=("a",)),
        Keys((b"k" * 24,), {}),
        webhook_id="msg_1",
        body=b"{}",
        headers={},
        sent_at=AT,
    )
    for secrets in (endpoint.secrets, secrets_in(WebhookTarget(url=url))):
        shown = excerpt(f"no such hook: {url.partition('.com')[2] or url}", secrets)
        assert shown is not None
        assert not any(part in shown for part in (SLACK[2], DISCORD[1], TELEGRAM[10:]))


async def test_an_answer_that_is_not_http_shows_no_secret_in_its_error(
    channel: WebhookChannel,
) -> None:
    async def repeat(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {KEY} {KEY}\r\n\r\n".encode())
        await writer.drain()

    async with wire(repeat) as base:
        request = to_here(structs.replace(WEBHOOK, url="https://example.com/hook"), base)
        delivery = await channel.deliver(request)
    assert delivery.error is not None
    assert list(shows(delivery, KEY)) == []


@pytest.mark.parametrize("name", PROVIDERS)
async def test_the_key_of_an_email_provider_is_not_repeated_in_parts(
    channel: WebhookChannel, name: str
) -> None:
    async with served(echo) as base:
        made = provider_request(PROVIDERS[name], EMAIL, url=base, key=KEY)
        delivery = await channel.deliver(made)
    assert list(shows(delivery, KEY)) == []


SECRET_TEXTS = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=",;= \"'"),
    min_size=FRAGMENT_CHARACTERS,
    max_size=60,
)


@settings(max_examples=examples(300), deadline=None)
@given(
    secret=SECRET_TEXTS,
    before=st.text(max_size=20),
    cut=st.integers(8, 60),
    number=st.integers(1, 9),
)
def test_no_part_of_a_secret_is_shown_wherever_an_answer_was_cut(
    secret: str, before: str, cut: int, number: int
) -> None:
    text = f"{before} {secret[:cut]} {secret[-cut:]} " * number
    shown = excerpt(text, header_secrets(f"Bearer {secret}")) or ""
    for at in range(len(secret) - FRAGMENT_CHARACTERS + 1):
        assert secret[at : at + FRAGMENT_CHARACTERS] not in shown


async def test_a_relay_that_repeats_a_login_shows_no_part_of_it() -> None:
    relay = Relay("127.0.0.1", 25, "shop", WORDS)
    login = b64encode(f"\0shop\0{WORDS}".encode()).decode()
    mailbox = Mailbox()
    mailbox.answers["MAIL"] = f"550 {login} {WORDS}"
    with mail_server(mailbox, authenticator=_accept, auth_require_tls=False) as port:
        channel = EmailChannel(structs.replace(relay, port=port))
        delivery = await channel.deliver(EMAIL)
        await channel.close()
    assert delivery.code == 550
    assert [part for secret in (login, WORDS) for part in shows(delivery, secret)] == []


def _accept(*_: Any) -> AuthResult:
    return AuthResult(success=True)


def test_what_is_no_secret_is_shown() -> None:
    secrets = secrets_in(REQUESTS["slack"][0]) | secrets_in(WEBHOOK)
    for text in (
        "503 services unavailable",
        "basic: no such user; services, hooks and webhooks are off",
        "the mode 1 and the theme are unknown",
        '{"error": "invalid_payload", "at": "2027-01-01T00:00:00Z"}',
    ):
        assert excerpt(text, secrets) == text


@pytest.fixture
def open_umask() -> Iterator[None]:
    """A shell in which new files can be read by everybody."""
    before = os.umask(0o000)
    yield
    os.umask(before)


def modes_below(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.rglob("*")}


@pytest.mark.usefixtures("open_umask", "migrations")
async def test_the_files_of_a_database_are_their_owners_only(tmp_path: Path) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path / 'tickwork.db'}")
    store = await open_store(settings)
    await create_first_key(store)  # So that there is a log.
    secret_box(settings)
    open_archive(str(tmp_path / "archive")).check()  # type: ignore[union-attr]
    with Archive(tmp_path / "archive").open("some") as append:
        append([{"a": 1}])
    modes = modes_below(tmp_path)
    await store.close()
    assert modes == {
        "tickwork.db": 0o600,
        "tickwork.db-wal": 0o600,
        "tickwork.db-shm": 0o600,
        "tickwork.db.key": 0o600,
        "archive": 0o700,
        "some.jsonl.gz": 0o600,
    }


@pytest.mark.usefixtures("migrations")
async def test_doctor_warns_of_a_file_that_others_can_read(tmp_path: Path) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path / 'tickwork.db'}")
    await (await open_store(settings)).close()

    async def level() -> str:
        return next(
            finding.level for finding in await examine(settings) if finding.check == "access"
        )

    assert await level() == "ok"
    (tmp_path / "tickwork.db").chmod(0o644)
    assert await level() == "warning"


@pytest.mark.parametrize("is_allowed", [False, True])
async def test_a_test_of_an_endpoint_does_not_say_where_a_name_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_allowed: bool
) -> None:
    """`hooks.internal` leads to an address of this machine at which nobody listens."""
    monkeypatch.setattr(socket, "getaddrinfo", _inside)
    settings = Settings(
        database=f"sqlite:///{tmp_path / 'tickwork.db'}",
        allow_targets=("hooks.internal",) if is_allowed else (),
    )
    key = await _key(settings)
    api = build_api(settings, registry=CollectorRegistry())
    async with in_process(api, **bearer(key)) as http:
        body = {"name": "crm", "url": "https://hooks.internal:8443/x", "types": ["a"]}
        assert (await http.post("/v1/endpoints", json=body)).status_code == 201
        answer = await http.post("/v1/endpoints/crm/test")
    told = answer.json()
    assert told["error"]
    assert "127.9.8.7" not in answer.text
    wanted = "the connection failed" if is_allowed else "resolves to an address that is not public"
    assert wanted in told["error"]


async def _key(settings: Settings) -> str:
    store = await open_store(settings)
    try:
        return await new_key(store)
    finally:
        await store.close()


def _inside(_host: str, port: int, *_: Any, **__: Any) -> list[Any]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.9.8.7", port))]


@pytest.mark.parametrize(
    "error",
    [
        OSError(111, "Connect call failed ('10.1.2.3', 8443)"),
        OSError("Multiple exceptions: [Errno 111] Connect call failed ('10.1.2.3', 443), "
                "[Errno 111] Connect call failed ('fd00::1:2', 443, 0, 0)"),
        ConnectionResetError(104, "reset by 10.1.2.3"),
    ],
)  # fmt: skip
def test_an_error_of_a_connection_names_no_address(error: OSError) -> None:
    _, text = explained(error)
    assert "10.1.2.3" not in text
    assert "fd00" not in text

"""JWTs: signatures by the issuer's algorithm and keys, mandatory claims, tenants and owners."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from httpx import AsyncClient, Response

from tests.kit.api import bearer, in_process
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.api import create_api
from tickwork.core import when
from tickwork.core.jwt_issuer import Algorithm, Issuer
from tickwork.core.model import SYSTEM, Tenant
from tickwork.errors import InvalidInput
from tickwork.store.contract import Store

Client = AsyncClient
SECRET = "s" * 32
AUDIENCE = "tickwork"
RSA_KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
OTHER_RSA_KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


def issuer(name: str, algorithm: Algorithm, **fields: Any) -> Issuer:
    given = {"tenants": ("default",)} | fields
    return Issuer(issuer=name, audience=AUDIENCE, algorithm=algorithm, **given)


class KeyServer:
    """Serves a JSON Web Key Set on this machine."""

    def __init__(self) -> None:
        self.keys: list[dict[str, Any]] = []
        self.fetches, self.is_broken = 0, False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.fetches += 1
                self.send_response(500 if outer.is_broken else 200)
                self.end_headers()
                self.wfile.write(json.dumps({"keys": outer.keys}).encode())

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/keys"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def add(self, key_id: str, key: rsa.RSAPrivateKey) -> None:
        jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
        self.keys.append({**jwk, "kid": key_id, "use": "sig"})

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def key_server() -> Iterator[KeyServer]:
    server = KeyServer()
    yield server
    server.close()


@pytest.fixture
async def client(
    home: Home, store: Store, clock: VirtualClock, key_server: KeyServer
) -> AsyncIterator[Client]:
    await store.tenants.put(SYSTEM, Tenant(id="acme"))
    issuers = [
        issuer("shared", Algorithm.HS256, secret=SECRET, admin_claim="is_admin"),
        issuer("roles", Algorithm.HS256, secret=SECRET, admin_claim="role=admin"),
        issuer("rsa", Algorithm.RS256, public_key=pem(RSA_KEY)),
        issuer("ec", Algorithm.ES256, public_key=pem(EC_KEY)),
        issuer("keys", Algorithm.RS256, jwks_url=key_server.url),
        issuer(
            "several",
            Algorithm.HS256,
            secret=SECRET,
            tenants=("default", "acme", "gone"),
            tenant_claim="org",
            owner_claim="user",
        ),
    ]
    api = create_api(
        now=clock.now,
        limits=when.Limits(),
        open_store=lambda: home.open(clock),
        issuers=issuers,
        monotonic=lambda: clock.now().timestamp(),
    )
    async with in_process(api) as started:
        yield started


def token(
    iss: str = "shared",
    key: Any = SECRET,
    algorithm: str = "HS256",
    headers: dict[str, Any] | None = None,
    **claims: Any,
) -> str:
    usual = {"iss": iss, "aud": AUDIENCE, "exp": time.time() + 60, "sub": "ada"}
    said = {name: claim for name, claim in (usual | claims).items() if claim is not None}
    return jwt.encode(said, key, algorithm=algorithm, headers=headers)


async def preview(client: Client, text: str) -> Response:
    body = {"cron_expr": "@daily"}
    return await client.post("/v1/schedules/preview", json=body, headers=bearer(text))


async def stats(client: Client, text: str) -> Response:
    return await client.get("/v1/stats", headers=bearer(text))


def refused(response: Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


@pytest.mark.one_store("sqlite")
async def test_tokens_of_every_algorithm_are_accepted(client: Client) -> None:
    for text in (
        token(),
        token("rsa", RSA_KEY, "RS256"),
        token("ec", EC_KEY, "ES256"),
        token(aud=["other", AUDIENCE]),
    ):
        assert (await preview(client, text)).status_code == 200


@pytest.mark.one_store("sqlite")
async def test_a_token_with_a_wrong_claim_is_refused(client: Client) -> None:
    for text in (
        token(exp=None),
        token(aud=None),
        token(aud="other"),
        token(iss=None),  # type: ignore[arg-type]
        token(iss="nobody"),
        token(sub=None),
        token(sub=""),
        token(sub="a" * 121),
        token(sub="a\0"),
        token(nbf=time.time() + 60),
        "a.b.c",
        token()[:-4] + "AAAA",
        token().rpartition(".")[0] + ".",
    ):
        assert refused(await preview(client, text)) == (401, "invalid_token"), text
    assert refused(await preview(client, token(exp=time.time() - 6))) == (401, "token_expired")


@pytest.mark.one_store("sqlite")
async def test_a_token_cannot_choose_how_it_is_checked(client: Client) -> None:
    claims = {"iss": "rsa", "aud": AUDIENCE, "exp": time.time() + 60, "sub": "ada"}
    unsigned = jwt.encode(claims, "", algorithm="none")
    public_as_secret = _signed_with_public_key(claims)
    for text in (
        unsigned,
        public_as_secret,
        token("rsa", SECRET, "HS256"),
        token("rsa", OTHER_RSA_KEY, "RS256"),
        token("rsa", EC_KEY, "ES256"),
        token("shared", "t" * 32, "HS256"),
        token("shared", SECRET + "s" * 32, "HS512"),
        token("rsa", OTHER_RSA_KEY, "RS256", headers={"jku": "https://evil.example/keys"}),
        token("keys", RSA_KEY, "RS256", headers={"kid": "../../dev/null"}),
        token("keys", RSA_KEY, "RS256"),
    ):
        assert refused(await preview(client, text)) == (401, "invalid_token"), text


def _signed_with_public_key(claims: dict[str, Any]) -> str:
    """HS256 with the public key as its secret: the oldest trick."""
    import base64
    import hmac

    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    signed = f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part(claims)}"
    digest = hmac.digest(pem(RSA_KEY).encode(), signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


async def test_a_token_reads_and_manages_as_its_owner(client: Client) -> None:
    assert refused(await stats(client, token())) == (403, "owner_bound")
    assert (await stats(client, token(is_admin=True))).status_code == 200
    assert (await stats(client, token(is_admin=True, sub=None))).status_code == 200
    for odd in ("true", 1, [True]):
        assert refused(await stats(client, token(is_admin=odd))) == (403, "owner_bound")
    for role in ("admin", ["user", "admin"]):
        assert (await stats(client, token("roles", role=role))).status_code == 200
    for other in ("administrator", "user", ["user"], True, None, {"admin": True}):
        assert refused(await stats(client, token("roles", role=other))) == (403, "owner_bound")
    cluster = await client.get("/v1/cluster", headers=bearer(token(is_admin=True)))
    assert refused(cluster) == (403, "needs_admin")
    named = bearer(token(is_admin=True)) | {"Tickwork-Tenant": "acme"}
    assert refused(await client.get("/v1/stats", headers=named)) == (403, "needs_admin")


@pytest.mark.one_store("sqlite")
async def test_a_tenant_claim_names_a_tenant_of_the_issuer(
    client: Client, store: Store, clock: VirtualClock
) -> None:
    for org in ("default", "acme"):
        assert (await preview(client, token("several", org=org, user="ada"))).status_code == 200
    for odd in (None, "nobody", "gone", 7, ["acme"]):
        text = token("several", org=odd, user="ada")
        assert refused(await preview(client, text)) == (401, "invalid_token")
    await store.tenants.put(SYSTEM, Tenant(id="acme", suspended=True))
    clock.advance(seconds=3)
    text = token("several", org="acme", user="ada")
    assert refused(await preview(client, text)) == (403, "tenant_suspended")


@pytest.mark.one_store("sqlite")
async def test_keys_of_an_issuer_are_fetched_and_cached(
    client: Client, key_server: KeyServer, clock: VirtualClock
) -> None:
    key_server.add("one", RSA_KEY)
    first = token("keys", RSA_KEY, "RS256", headers={"kid": "one"})
    second = token("keys", OTHER_RSA_KEY, "RS256", headers={"kid": "two"})
    for _ in range(3):
        assert (await preview(client, first)).status_code == 200
    assert key_server.fetches == 1
    key_server.add("two", OTHER_RSA_KEY)
    assert refused(await preview(client, second)) == (401, "invalid_token")
    assert key_server.fetches == 1  # An unknown key is no way to make us fetch all the time.
    clock.advance(seconds=10)
    assert (await preview(client, second)).status_code == 200
    assert key_server.fetches == 2
    key_server.keys.clear()
    clock.advance(seconds=300)
    assert refused(await preview(client, first)) == (401, "invalid_token")


@pytest.mark.one_store("sqlite")
async def test_keys_stay_valid_while_their_url_fails(
    client: Client, key_server: KeyServer, clock: VirtualClock
) -> None:
    key_server.add("one", RSA_KEY)
    text = token("keys", RSA_KEY, "RS256", headers={"kid": "one"})
    assert (await preview(client, text)).status_code == 200
    key_server.is_broken = True
    clock.advance(seconds=300)
    assert (await preview(client, text)).status_code == 200
    assert key_server.fetches == 2


def test_a_key_of_another_kind_is_refused_at_start() -> None:
    wrong = issuer("rsa", Algorithm.RS256, public_key="no key")
    with pytest.raises(InvalidInput, match="public_key"):
        create_api(now=lambda: pytest.fail("is not called"), limits=when.Limits(), issuers=[wrong])

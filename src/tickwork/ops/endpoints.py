"""Endpoints of a tenant: create, look, change, test, and their secrets.

The signing secret is shown once, when it is made; with the signature `v1a` it is never shown, and
its public key always. The values of secret headers are never shown.
Both are stored encrypted, in rows of their own: whoever reads an endpoint, a message or a dead
letter finds no secret there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import msgspec
from msgspec import structs

from tickwork.core.access import owner_of_new
from tickwork.core.answers.endpoint import CreatedEndpoint, EndpointAnswer
from tickwork.core.answers.ids import GivenId
from tickwork.core.delivery.endpoint import (
    ENDPOINTS_QUEUE,
    ENDPOINTS_SETTINGS,
    Attempt,
    DeliverySelection,
    Endpoint,
    EndpointSettings,
    EndpointStats,
    secrets_owner,
)
from tickwork.core.delivery.endpoint_fields import (
    GivenEndpoint,
    read_changes,
    read_endpoint,
    read_name,
)
from tickwork.core.delivery.endpoint_request import (
    TEST_TYPE,
    Keys,
    attempt_of,
    delivery_headers,
    endpoint_request,
)
from tickwork.core.delivery.publish import published
from tickwork.core.delivery.signature import SECRET_PREFIX, V1, Sign, new_secret, secret_key
from tickwork.core.fields import TEXT_LENGTH_MAX, shown, text_faults
from tickwork.core.limits import ENDPOINTS_MAX, check_limit
from tickwork.core.model import NewMessage, Scope
from tickwork.core.schedule.fields import parse_id
from tickwork.errors import (
    Conflict,
    FieldError,
    InvalidInput,
    NotFound,
    PreconditionFailed,
    TickworkError,
)
from tickwork.extras import delivery_extra
from tickwork.ops.audit import RecordedChange, recorded
from tickwork.ops.context import Context
from tickwork.ops.outside import Box, CheckUrl
from tickwork.ops.queues import CHANGE_ATTEMPTS_MAX
from tickwork.ops.schedules.lookup import ensure_hidden_queue
from tickwork.ops.webhook_secret import (
    ROTATION_SECONDS,
    SECRET_BYTES,
    SIGNING,
    check_current,
    check_key,
    readable,
)
from tickwork.store.contract import Store
from tickwork.store.delivery_contract import CheckEndpoint
from tickwork.store.ids import new_id, own_tenant, random_bytes

STATS_DAYS = 7
"""Days that the numbers of an endpoint cover, unless the caller says since when."""


async def create_endpoint(
    context: Context, name: str, fields: Mapping[str, object]
) -> CreatedEndpoint:
    """Stores a new endpoint and its secrets. Raises `InvalidInput`, `Conflict` if the name is in
    use or the key is not that of the tenant's other secrets, `TooMany`."""
    box = context.outside.secret_box()
    fields = owned_fields(context.scope, fields)
    given = _checked(
        lambda: read_name(name), lambda: read_endpoint(fields), context.outside.check_url
    )
    await check_key(context, box, f"endpoint {name} was not created")
    await ensure_endpoints(context.store)
    now = await context.store.now()
    endpoint_id = new_id()
    secret = _new_secret(given.settings)
    new = Endpoint(
        id=endpoint_id,
        tenant=own_tenant(context.scope),
        name=name,
        settings=given.settings,
        created_at=now,
        updated_at=now,
    )
    # Secrets first: an endpoint without them could deliver nothing.
    await _put_secrets(context, new, box, {SIGNING: secret, **_header_fields(given)})
    try:
        async with recorded(context, "endpoint.create", name, after=_shown(new)):
            made = await context.store.endpoints.create(context.scope, new)
    except TickworkError:
        await context.store.secrets.delete(context.scope, secrets_owner(endpoint_id))
        raise
    return CreatedEndpoint.of(made, _for_receiver(secret))


def owned_fields(scope: Scope, fields: Mapping[str, object]) -> Mapping[str, object]:
    """The fields of an endpoint with the owner of the scope."""
    if scope.owner is None:
        return fields
    return {**fields, "owner": owner_of_new(scope, fields.get("owner"))}


async def get_endpoint(context: Context, reference: GivenId) -> EndpointAnswer:
    """One endpoint by its name or id. Raises `NotFound`."""
    return EndpointAnswer.of(await find_endpoint(context, reference))


async def find_endpoint(context: Context, reference: GivenId) -> Endpoint:
    """The stored endpoint with a name or id. Raises `NotFound`."""
    given: object = reference
    if not isinstance(given, UUID | str):
        fault = f"must be the name or id of an endpoint, not {shown(given)}"
        raise InvalidInput([FieldError("endpoint", fault)])
    parsed = parse_id(given) if isinstance(given, str) else None
    found = await context.store.endpoints.get(context.scope, parsed or given)
    if not context.scope.reaches(found.settings.owner):
        raise NotFound("endpoint", given)
    return found


async def select_endpoint(
    context: Context, selection: DeliverySelection, reference: GivenId | None
) -> DeliverySelection:
    """The selection, of one endpoint if one is given."""
    if reference is None:
        return selection
    stored = await find_endpoint(context, reference)
    return structs.replace(selection, endpoint_id=stored.id)


async def list_endpoints(
    context: Context, *, limit: int, after: str | None = None
) -> tuple[EndpointAnswer, ...]:
    """Endpoints by name."""
    if context.scope.owner is None:
        found = await context.store.endpoints.list(context.scope, limit, after=after)
        return tuple(map(EndpointAnswer.of, found))
    check_limit(limit)
    found = await context.store.endpoints.list(context.scope, ENDPOINTS_MAX, after=after)
    own = [endpoint for endpoint in found if context.scope.reaches(endpoint.settings.owner)]
    return tuple(map(EndpointAnswer.of, own[:limit]))


async def update_endpoint(
    context: Context,
    reference: GivenId,
    fields: Mapping[str, object],
    *,
    check: CheckEndpoint | None = None,
) -> EndpointAnswer:
    """Changes the given fields only. `secret_headers` replaces all of them. `check` may refuse the
    stored endpoint, such as for an old `If-Match`."""
    if "owner" in fields:
        fields = owned_fields(context.scope, fields)
    for _ in range(CHANGE_ATTEMPTS_MAX):
        stored = await find_endpoint(context, reference)
        if check is not None:
            check(stored)  # Before secrets are replaced; and again in the transaction.
        read = partial(read_changes, stored.settings, fields)
        given = _checked(lambda: None, read, context.outside.check_url)
        if given.secrets:
            await check_key(
                context.within(Scope(stored.tenant)),
                context.outside.secret_box(),
                f"endpoint {stored.name} was not changed",
            )
            await _put_secrets(context, stored, context.outside.secret_box(), _header_fields(given))
        after, same = structs.replace(stored, settings=given.settings), _unchanged(stored, check)
        with suppress(PreconditionFailed):
            async with _recorded(context, "update", stored, after=_shown(after)):
                changed = await context.store.endpoints.update(
                    context.scope, stored.id, given.settings, check=same
                )
                return EndpointAnswer.of(changed)
    raise Conflict(f"others change endpoint {reference} all the time; try again")


def _unchanged(known: Endpoint, check: CheckEndpoint | None) -> CheckEndpoint:
    """Refuses an endpoint that somebody has changed since it was read, or that `check` refuses."""

    def refuse(stored: Endpoint) -> None:
        if stored.settings != known.settings:
            raise PreconditionFailed("endpoint", known.name)
        if check is not None:
            check(stored)

    return refuse


async def rotate_secret(context: Context, reference: GivenId) -> str:
    """Replaces the signing secret and returns the new one, or its public key. For a day deliveries
    carry the signatures of both. Raises `Conflict` if the key does not read the current one."""
    box = context.outside.secret_box()
    stored = await find_endpoint(context, reference)
    secret, owner = _new_secret(stored.settings), secrets_owner(stored.id)
    found = await context.store.secrets.get(Scope(stored.tenant), owner, SIGNING)
    what = f"the secret of endpoint {stored.name}"
    advice = "if that key is lost, delete the endpoint and create it again"
    check_current(box, found, stored.tenant, owner, what, advice)
    sealed = box.encrypt(secret, stored.tenant, owner, SIGNING)
    async with _recorded(context, "rotate", stored):
        await context.store.secrets.rotate(
            context.scope,
            owner,
            SIGNING,
            sealed,
            keep_seconds=ROTATION_SECONDS,
            endpoint_id=stored.id,
        )
    return _for_receiver(secret)


async def public_keys(context: Context, reference: GivenId) -> tuple[str, ...]:
    """The public keys with which the signatures `v1a` of an endpoint can be checked, the current
    one first. Raises `NotFound` if it has none."""
    box = context.outside.secret_box()
    stored = await find_endpoint(context, reference)
    secrets = await _secrets(context.store, stored, box, SIGNING)
    found = tuple(
        _for_receiver(secret) for secret in secrets if not secret.startswith(SECRET_PREFIX)
    )
    if not found:
        hint = 'update it with signature="v1a", and rotate its secret'
        raise NotFound("public key of", stored.name, hint)
    return found


async def test_endpoint(context: Context, reference: GivenId) -> Attempt:
    """Sends one event of type `endpoint.test` at once, also to a disabled endpoint, and returns the
    attempt. Nothing is stored, and a failure changes nothing."""
    box = context.outside.secret_box()
    stored = await find_endpoint(context, reference)
    now = await context.store.now()
    data = msgspec.json.encode({"endpoint": stored.name})
    event = published(NewMessage(id=new_id(), body=data, type=TEST_TYPE), now)
    request = endpoint_request(
        stored.settings,
        await endpoint_keys(context.store, stored, box),
        webhook_id=str(event.id),
        body=event.body,
        headers=delivery_headers(event.id, attempt=1, fence=1),
        sent_at=now,
    )
    sink = context.outside.webhook_sink()
    try:
        return attempt_of(await sink.deliver(request), 1, now)
    finally:
        await sink.close()


async def disable_endpoint(context: Context, reference: GivenId, reason: str) -> EndpointAnswer:
    """Stops deliveries; what waits, and what is published meanwhile, is kept."""
    given: object = reason
    if not isinstance(given, str):
        raise InvalidInput([FieldError("reason", f"must be a text, not {shown(given)}")])
    if faults := text_faults("reason", reason, TEXT_LENGTH_MAX):
        raise InvalidInput(faults)
    stored = await find_endpoint(context, reference)
    async with _recorded(context, "disable", stored, after={"reason": reason}):
        disabled = await context.store.endpoints.disable(context.scope, stored.id, reason)
    return EndpointAnswer.of(disabled)


async def enable_endpoint(context: Context, reference: GivenId) -> EndpointAnswer:
    """Resumes deliveries, oldest first, at the rate of the endpoint or 20 a second, and closes
    the breaker."""
    stored = await find_endpoint(context, reference)
    async with _recorded(context, "enable", stored):
        enabled = await context.store.endpoints.enable(context.scope, stored.id)
    return EndpointAnswer.of(enabled)


async def delete_endpoint(
    context: Context, reference: GivenId, *, check: CheckEndpoint | None = None
) -> int:
    """Deletes an endpoint, its secrets and what waits for it; returns how many waited. `check` as
    for `update_endpoint`."""
    stored = await find_endpoint(context, reference)
    async with _recorded(context, "delete", stored):
        return await context.store.endpoints.delete(context.scope, stored.id, check=check)


def _recorded(
    context: Context, verb: str, endpoint: Endpoint, after: object = None
) -> AbstractAsyncContextManager[RecordedChange]:
    action, before = f"endpoint.{verb}", _shown(endpoint)
    return recorded(context, action, endpoint.name, before=before, after=after)


def _shown(endpoint: Endpoint) -> object:
    """What the audit log shows of an endpoint."""
    return {"settings": endpoint.settings, "disabled_reason": endpoint.disabled_reason}


async def endpoint_stats(
    context: Context, reference: GivenId, *, since: datetime | None
) -> EndpointStats:
    """The numbers of an endpoint since a time."""
    stored = await find_endpoint(context, reference)
    start = since or await context.store.now() - timedelta(days=STATS_DAYS)
    return await context.store.endpoints.stats(context.scope, stored.id, start)


async def endpoint_keys(store: Store, endpoint: Endpoint, box: Box) -> Keys:
    """What deliveries to an endpoint are signed with, and its secret headers."""
    headers: dict[str, str] = {}
    for name in endpoint.settings.secret_headers:
        for value in (await _secrets(store, endpoint, box, _header(name)))[:1]:
            headers[name] = value
    secrets = await _secrets(store, endpoint, box, SIGNING)
    return Keys(tuple(map(_signing_key, secrets)), headers)


async def ensure_endpoints(store: Store) -> None:
    """Creates the hidden queue of endpoints if there is none."""
    await ensure_hidden_queue(store, ENDPOINTS_QUEUE, ENDPOINTS_SETTINGS)


def _checked(
    name: Callable[[], object], fields: Callable[[], GivenEndpoint], check_url: CheckUrl
) -> GivenEndpoint:
    """What was given. Raises `InvalidInput` with the faults of the name, the fields and the URL."""
    faults: list[FieldError] = []
    given: GivenEndpoint | None = None
    try:
        name()
    except InvalidInput as error:
        faults += error.errors
    try:
        given = fields()
        check_url(given.settings.url)
    except InvalidInput as error:
        faults += error.errors
    if faults or given is None:
        raise InvalidInput(faults)
    return given


async def _put_secrets(
    context: Context, endpoint: Endpoint, box: Box, secrets: Mapping[str, str]
) -> None:
    owner = secrets_owner(endpoint.id)
    for field, secret in secrets.items():
        sealed = box.encrypt(secret, endpoint.tenant, owner, field)
        await context.store.secrets.rotate(
            context.scope, owner, field, sealed, keep_seconds=0.0, endpoint_id=endpoint.id
        )


async def _secrets(store: Store, endpoint: Endpoint, box: Box, field: str) -> tuple[str, ...]:
    """The valid secrets of a field that can be read, the current one first."""
    scope, owner = Scope(endpoint.tenant), secrets_owner(endpoint.id)
    found = await store.secrets.get(scope, owner, field)
    return readable(box, found, endpoint.tenant, owner, field)


def _new_secret(settings: EndpointSettings) -> str:
    """A secret of the kind that an endpoint has chosen."""
    random = random_bytes(SECRET_BYTES)
    if settings.signature == V1:
        return new_secret(random)
    with delivery_extra("signatures v1a"):
        from tickwork.channel.ed25519 import new_private_key

    return new_private_key(random)


def _for_receiver(secret: str) -> str:
    """What a receiver needs to check signatures: the secret, or its public key."""
    if secret.startswith(SECRET_PREFIX):
        return secret
    from tickwork.channel.ed25519 import public_key_of

    return public_key_of(secret)


def _signing_key(secret: str) -> bytes | Sign:
    if secret.startswith(SECRET_PREFIX):
        return secret_key(secret)
    from tickwork.channel.ed25519 import signer

    return signer(secret)


def _header_fields(given: GivenEndpoint) -> dict[str, str]:
    return {_header(name): value for name, value in (given.secrets or {}).items()}


def _header(name: str) -> str:
    return f"header:{name.lower()}"

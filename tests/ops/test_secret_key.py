"""A wrong key stores no secret, and an unreadable previous secret stops no delivery."""

from __future__ import annotations

import logging
from base64 import b64encode
from typing import Any

import pytest

from tests.kit.contexts import acting
from tickwork.channel.secrets import SecretBox
from tickwork.core.delivery.alert import read_alert_target
from tickwork.core.delivery.endpoint import secrets_owner
from tickwork.core.model import DEFAULT
from tickwork.errors import Conflict, StoreBroken
from tickwork.ops.alerts import get_alerts, set_alerts
from tickwork.ops.context import Context
from tickwork.ops.endpoints import (
    create_endpoint,
    delete_endpoint,
    endpoint_keys,
    find_endpoint,
    rotate_secret,
    update_endpoint,
)
from tickwork.ops.webhook_secret import (
    OWNER,
    ROTATION_SECONDS,
    SIGNING,
    check_current,
    rotate_signing_secret,
    signing_secret,
    signing_secrets,
)
from tickwork.store.contract import Store

TEXTS = [b64encode(name * 32).decode() for name in (b"1", b"2")]
RIGHT, WRONG = map(SecretBox.from_text, TEXTS)
BOTH = SecretBox.from_text(",".join(TEXTS))
SHOP: Any = {"url": "https://shop.example.com/", "types": ["*"], "secret_headers": {"X-Tok": "t"}}


async def make(store: Store, box: SecretBox, name: str = "shop") -> None:
    await create_endpoint(acting(store, DEFAULT, box=box, check_url=lambda _: None), name, SHOP)


async def test_a_rotation_with_another_key_is_refused_and_changes_nothing(store: Store) -> None:
    await make(store, RIGHT)
    secret = await signing_secret(acting(store, DEFAULT, box=RIGHT))
    shop = await find_endpoint(Context(store, DEFAULT), "shop")
    with pytest.raises(Conflict, match=r"secret of endpoint shop was not rotated: .*SECRET_KEY"):
        await rotate_secret(acting(store, DEFAULT, box=WRONG), "shop")
    with pytest.raises(Conflict, match=r"tenant's webhook secret was not rotated: .*SECRET_KEY"):
        await rotate_signing_secret(acting(store, DEFAULT, box=WRONG))
    assert len((await endpoint_keys(store, shop, RIGHT)).signing) == 1
    assert await signing_secrets(acting(store, DEFAULT, box=RIGHT)) == (secret,)


async def test_another_key_makes_no_secret_beside_those_it_cannot_read(store: Store) -> None:
    await make(store, RIGHT)
    with pytest.raises(Conflict, match="endpoint other was not created: the signing secret of end"):
        await make(store, WRONG, "other")
    with pytest.raises(StoreBroken, match="webhook secret was not made"):
        await signing_secret(acting(store, DEFAULT, box=WRONG))
    changes: Any = {"secret_headers": {"X-Tok": "u"}}
    with pytest.raises(Conflict, match="endpoint shop was not changed"):
        await update_endpoint(
            acting(store, DEFAULT, box=lambda: WRONG, check_url=lambda _: None), "shop", changes
        )
    ops = read_alert_target({"webhook": "https://ops.example.com/"})
    with pytest.raises(Conflict, match=r"alerts were not set: the signing secret .*SECRET_KEY"):
        await set_alerts(acting(store, DEFAULT, box=WRONG, check_url=lambda _: None), ops)
    assert await get_alerts(acting(store, DEFAULT, box=WRONG)) is None
    await set_alerts(acting(store, DEFAULT, box=RIGHT, check_url=lambda _: None), ops)
    assert await get_alerts(acting(store, DEFAULT, box=RIGHT)) == ops
    assert await store.secrets.get(DEFAULT, OWNER, SIGNING) == ()
    await make(store, SecretBox.from_text(",".join(reversed(TEXTS))), "other")
    await make(store, WRONG, "third")  # Its key is that of the second.


async def test_who_lost_the_key_can_go_on(store: Store) -> None:
    await make(store, RIGHT)
    await signing_secret(acting(store, DEFAULT, box=RIGHT))
    await delete_endpoint(Context(store, DEFAULT), "shop")
    with pytest.raises(Conflict, match="the tenant's webhook secret was encrypted with another"):
        await make(store, WRONG)
    made = await rotate_signing_secret(acting(store, DEFAULT, box=WRONG), is_key_lost=True)
    assert await signing_secrets(acting(store, DEFAULT, box=WRONG)) == (made,)
    await make(store, WRONG)


async def test_an_unreadable_previous_secret_stops_no_delivery(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    await make(store, RIGHT)
    first = await signing_secret(acting(store, DEFAULT, box=RIGHT))
    shop = await find_endpoint(Context(store, DEFAULT), "shop")
    for owner in (OWNER, secrets_owner(shop.id)):
        sealed = WRONG.encrypt(first, shop.tenant, owner, SIGNING)
        keep: Any = {"keep_seconds": ROTATION_SECONDS}
        await store.secrets.rotate(DEFAULT, owner, SIGNING, sealed, **keep)
    # What a wrong key left behind: the current secret cannot be read, the one before can.
    with caplog.at_level(logging.WARNING, "tickwork"):
        assert await signing_secrets(acting(store, DEFAULT, box=RIGHT)) == (first,)
        assert len((await endpoint_keys(store, shop, RIGHT)).signing) == 1
    assert caplog.text.count("webhooks lack one of two signatures") == 2
    with pytest.raises(StoreBroken):
        await signing_secret(acting(store, DEFAULT, box=RIGHT))
    second = await rotate_signing_secret(acting(store, DEFAULT, box=BOTH))
    await rotate_secret(acting(store, DEFAULT, box=BOTH), "shop")
    assert await signing_secrets(acting(store, DEFAULT, box=RIGHT)) == (second,)
    keys = await endpoint_keys(store, shop, RIGHT)
    assert (len(keys.signing), keys.headers) == (1, {"X-Tok": "t"})
    third = await rotate_signing_secret(acting(store, DEFAULT, box=RIGHT))
    assert await signing_secrets(acting(store, DEFAULT, box=RIGHT)) == (third, second)


def test_an_error_names_the_secret_and_where_its_key_belongs() -> None:
    box = SecretBox.from_text(TEXTS[0], "the key file tickwork.db.key")
    stored = WRONG.encrypt("s", "default", OWNER, SIGNING)
    words = "the tenant's webhook secret was encrypted with another key; add that key to the key "
    with pytest.raises(StoreBroken, match=f"{words}file tickwork.db.key, after the current one"):
        box.decrypt(stored, "default", OWNER, SIGNING)
    with pytest.raises(Conflict, match="so it is"):
        check_current(box, [stored], "default", OWNER, "x", "so it is")
    owner = "endpoint:01a1ecb8-166c-7000-8000-000000000000"
    stored = WRONG.encrypt("s", "default", owner, "header:x-tok")
    with pytest.raises(StoreBroken, match="the secret header x-tok of endpoint end_01a1ecb8166c7"):
        box.decrypt(stored, "default", owner, "header:x-tok")

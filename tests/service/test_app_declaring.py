"""Whose word on a queue's settings counts."""

from pathlib import Path

import pytest

from tickwork.core.model import DEFAULT
from tickwork.errors import InvalidInput
from tickwork.facade import Tickwork


async def retries_of(app: Tickwork, queue: str) -> int:
    store = await app.open()
    return (await store.queues.get(DEFAULT, queue)).settings.max_retries


async def test_who_only_names_a_queue_leaves_its_settings_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'app.db'}"
    owner, producer, later = Tickwork(url), Tickwork(url), Tickwork(url)
    owner.queue("emails", max_retries=9)
    assert await retries_of(owner, "emails") == 9
    await owner.close()
    await producer.queue("emails").send({"to": "a@example.com"})
    assert await retries_of(producer, "emails") == 9
    await producer.close()
    later.queue("emails", max_retries=1)
    assert await retries_of(later, "emails") == 1
    await later.close()


async def test_a_queue_that_nobody_described_is_made_as_usual(tmp_path: Path) -> None:
    app = Tickwork(f"sqlite:///{tmp_path / 'app.db'}")
    await app.queue("emails").send({})
    assert await retries_of(app, "emails") == 3
    await app.close()


async def test_a_bad_address_is_named_as_the_argument_it_is() -> None:
    with pytest.raises(InvalidInput) as raised:
        await Tickwork("mysql://localhost/app").open()
    assert [each.field for each in raised.value.errors] == ["database"]

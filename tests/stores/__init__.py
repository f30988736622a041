"""Stores to test on: real databases, migrated and empty, under a clock that stands still.

- fixtures `store` (each test runs on SQLite and on PostgreSQL) and `clock`:
  `async def test_…(store: Store, clock: VirtualClock)`.
- fixture `home`: where `store` lives. `await home.open(clock)` opens it once more, as another
  process would; `home.url` is for connections of one's own.
- `pytest.mark.parametrize("home", ["postgres"], indirect=True)` picks the kinds; `"model"` is
  the in-memory model.
- fixture `homes`: `async with homes.take("postgres") as home` where one is not enough.
"""

"""Every list of columns has every column: a field cannot be forgotten in one of them."""

import re
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from tickwork.core.message.dead_letter import StoredDeadLetter
from tickwork.core.model import Message, NewMessage
from tickwork.core.schedule.model import Definition, NewSchedule, Schedule
from tickwork.store.ids import new_id
from tickwork.store.postgres.engine.sql import SQL as POSTGRES
from tickwork.store.shared import columns
from tickwork.store.sqlite.engine.sql import COMMON
from tickwork.store.sqlite.engine.sql import SQL as SQLITE
from tickwork.store.sqlite.messages.claim_rows import CompleteRow
from tickwork.store.sqlite.messages.prepared_messages import _is_plain

COMPUTED = {"delay_seconds", "expires_after_seconds"}
"""Fields of a new message that are stored as times."""

IN_TERMS = {"on_success", "on_failure"}
"""Fields of a definition that are stored in its terms alone."""

OF_A_DEAD_LETTER = {
    "id", "tenant", "queue_id", "message_id", "reason", "error", "fingerprint", "attempts",
    "failed_at", "resolution", "resolved_at", "edited_at", "replayed_as",
}  # fmt: skip
"""Fields that a dead letter does not take over from its message."""


def names(listed: Any) -> list[str]:
    return [column.name for column in listed]


def test_the_columns_of_a_message_are_its_fields_in_order() -> None:
    assert (*names(columns.MESSAGE),) == Message.__struct_fields__


def test_everything_of_a_new_message_is_stored() -> None:
    assert {*names(columns.SENT)} == {*NewMessage.__struct_fields__} - COMPUTED


def test_the_defaults_of_columns_are_those_of_a_new_message() -> None:
    new = NewMessage(id=new_id(), body=b"")
    for column in columns.SENT:
        if column.name not in ("id", "body"):
            assert getattr(new, column.name) == column.default, column.name


@pytest.mark.parametrize("field", NewMessage.__struct_fields__)
def test_a_message_with_any_other_field_is_not_plain(field: str) -> None:
    """A plain message is stored by its id and body alone: all else would be lost."""
    plain = NewMessage(id=new_id(), body=b"1")
    assert _is_plain(plain)
    other = structs.replace(plain, **{field: object()})
    assert _is_plain(other) is (field in ("id", "body"))


def test_a_dead_letter_takes_over_what_it_has_of_a_message() -> None:
    assert {*names(columns.KEPT)} == {*StoredDeadLetter.__struct_fields__} - OF_A_DEAD_LETTER


def test_a_claim_on_sqlite_reads_every_column() -> None:
    claimed = [*names(COMMON), *names(columns.RARE)]
    assert CompleteRow.__struct_fields__ == ("rowid", *claimed)
    assert {*claimed} | {"queue_id", "state", "holder", "claimed_at"} == {
        *Message.__struct_fields__
    }


def test_what_a_claim_leaves_out_has_the_default_of_its_column() -> None:
    row = CompleteRow(1, "t", new_id(), 4, 0, 0, None, None, None)
    for column in columns.RARE:
        assert getattr(row, column.name) == column.default, column.name


def test_every_field_of_a_schedule_is_read() -> None:
    stored = {*Schedule.__struct_fields__} - {"definition", "unfinished"}
    read = stored | {*Definition.__struct_fields__} - IN_TERMS | {"shift", "terms"}
    assert {*columns.SCHEDULE} == read


def test_every_field_of_a_new_schedule_is_stored() -> None:
    stored = {name for name, _ in columns.NEW_SCHEDULE}
    fields = {*NewSchedule.__struct_fields__} - {"definition"} | {*Definition.__struct_fields__}
    assert stored == fields - IN_TERMS | {
        "bucket",
        "grace_seconds",
        "calendar",
        "terms",
        "receiver",
    }


FILLED_IN_LATER = {
    *("/*each*/", "/*day*/", "/*hour*/", "/*start*/", "/*end*/"),
    *("/*buckets_per_shard*/", "/*look_index*/"),
    *("/*table*/", "/*policy*/", "/*role*/", "/*schema*/", "/*condition*/", "/*tenant_id*/"),
    *("/*fields*/", "/*position*/", "/*trigger*/", "/*act*/", "/*note*/"),
}
"""Placeholders for a number of rows or shards, for a day, for what a reader is granted,
and for tables that are copied."""


@pytest.mark.parametrize("statements", [POSTGRES, SQLITE], ids=["postgres", "sqlite"])
def test_no_placeholder_is_left(statements: SimpleNamespace) -> None:
    for name, text in vars(statements).items():
        left = {*re.findall(r"/\*.*?\*/", text)} - FILLED_IN_LATER
        assert not left, f"{name}: {left}"

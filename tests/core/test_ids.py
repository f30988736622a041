"""An id is written with the prefix of its kind, and is the UUID that it was before."""

from __future__ import annotations

import copy
import pickle
from typing import ClassVar
from uuid import UUID, uuid4

import pytest
from msgspec import Struct, ValidationError

from tickwork.core.answers.ids import (
    ENCODER,
    Id,
    Prefix,
    decoder_of,
    parse_public_id,
    public_id,
    spellings,
    with_prefixes,
    without_prefix,
)
from tickwork.errors import ID_PREFIXES, NotFound

PLAIN = UUID("0199f2a1-7c30-7bbb-8000-0123456789ab")
SHOWN = "msg_0199f2a17c307bbb80000123456789ab"


class Part(Struct, frozen=True):
    message_id: UUID | None
    queue_id: UUID


class Whole(Struct, frozen=True):
    ID_PREFIX: ClassVar = Prefix.BATCH

    id: UUID
    parts: tuple[Part, ...]


def test_an_id_is_written_with_its_prefix_and_equals_its_uuid() -> None:
    own = Id(Prefix.MESSAGE, PLAIN)
    assert (str(own), f"{own}", repr(own)) == (SHOWN, SHOWN, f"Id({SHOWN!r})")
    assert f"{own:>40}|" == f"{SHOWN:>40}|"
    assert own == PLAIN
    assert own == PLAIN
    assert {PLAIN: 1, own: 2} == {own: 2}
    assert (own.bytes, own.hex, own < uuid4() or own > uuid4()) == (PLAIN.bytes, PLAIN.hex, True)
    for same in (copy.deepcopy(own), pickle.loads(pickle.dumps(own))):  # noqa: S301  our own
        assert (type(same), str(same)) == (Id, SHOWN)
    assert type(without_prefix(own)) is UUID
    assert without_prefix("text") == "text"


def test_json_has_an_id_with_its_prefix() -> None:
    class Answer(Struct, frozen=True):
        id: Id

    answer = Answer(Id(Prefix.MESSAGE, PLAIN))
    written = ENCODER.encode(answer)
    assert written.decode() == f'{{"id":"{SHOWN}"}}'
    assert decoder_of(Answer).decode(written) == answer
    with pytest.raises(ValidationError):
        decoder_of(Answer).decode(b'{"id":"msg_1"}')


@pytest.mark.parametrize("text", [SHOWN, PLAIN.hex, str(PLAIN), str(PLAIN).upper()])
def test_an_id_is_read_in_either_spelling(text: str) -> None:
    assert parse_public_id(text) == PLAIN
    assert {SHOWN, str(PLAIN), text} <= {*spellings(text)}


def test_the_ids_of_a_record_get_the_prefixes_of_their_kinds() -> None:
    record = Whole(PLAIN, (Part(PLAIN, PLAIN), Part(None, PLAIN)))
    (shown,) = with_prefixes((record,))
    assert shown == record
    assert str(shown.id) == public_id(Prefix.BATCH, PLAIN)
    assert str(shown.parts[0].message_id) == SHOWN
    assert type(shown.parts[0].queue_id) is UUID  # Queues have no prefix.
    assert shown.parts[1].message_id is None


def test_an_error_names_what_is_missing_by_its_prefix() -> None:
    assert {*ID_PREFIXES.values()} < {*Prefix}
    assert SHOWN in str(NotFound("message", PLAIN))
    assert str(NotFound("node", PLAIN)) == f"there is no node {PLAIN}"

"""An id is written with the prefix of its kind, and is the UUID that it was before."""

from __future__ import annotations

import copy
import json
import pickle
from uuid import UUID, uuid4

import msgspec
import pytest
from msgspec import Struct, ValidationError

from tickwork.core.answers.ids import (
    ENCODER,
    Id,
    Prefix,
    decoder_of,
    fields_as_in,
    parse_public_id,
    spellings,
)
from tickwork.errors import ID_PREFIXES, NotFound

PLAIN = UUID("0199f2a1-7c30-7bbb-8000-0123456789ab")
SHOWN = "msg_0199f2a17c307bbb80000123456789ab"


class Stored(Struct, frozen=True):
    id: UUID
    message_id: UUID
    batch_id: UUID | None
    queue_id: UUID


class Shown(Struct, frozen=True):
    id: Id
    message_id: Id
    batch_id: Id | None
    queue_id: UUID
    more: int


def test_an_id_is_its_text_and_equals_its_uuid_and_both_spellings() -> None:
    own = Id.of(Prefix.MESSAGE, PLAIN)
    assert (str(own), f"{own:>40}|", repr(own)) == (SHOWN, f"{SHOWN:>40}|", repr(SHOWN))
    for same in (own, SHOWN, PLAIN, PLAIN.hex, str(PLAIN), str(PLAIN).upper()):
        assert own == same
        assert same == own
        assert not own != same  # noqa: SIM202  its own method
    for other in (uuid4(), f"dead_{PLAIN.hex}", SHOWN[:-1], "", None, 1):
        assert own != other
        assert not own == other  # noqa: SIM201  its own method
    for copied in (copy.deepcopy(own), pickle.loads(pickle.dumps(own))):  # noqa: S301  our own
        assert (type(copied), str(copied), copied.uuid) == (Id, SHOWN, PLAIN)
    assert (own.bytes, own.hex) == (PLAIN.bytes, PLAIN.hex)


def test_a_set_finds_an_id_by_its_text() -> None:
    own = Id.of(Prefix.MESSAGE, PLAIN)
    known: dict[str, int] = {own: 1}
    assert known[SHOWN] == {SHOWN: 1}[own] == 1
    assert {own, SHOWN} == {SHOWN}
    assert own.uuid == PLAIN


def test_json_has_an_id_as_its_text() -> None:
    class Answer(Struct, frozen=True):
        id: Id

    answer = Answer(Id.of(Prefix.MESSAGE, PLAIN))
    written = ENCODER.encode(answer)
    assert written.decode() == f'{{"id":"{SHOWN}"}}'
    assert written == msgspec.json.encode(answer, enc_hook=str)
    assert json.dumps({answer.id: answer.id}) == f'{{"{SHOWN}": "{SHOWN}"}}'
    assert decoder_of(Answer).decode(written) == answer
    with pytest.raises(ValidationError):
        decoder_of(Answer).decode(b'{"id":"msg_1"}')


@pytest.mark.parametrize("text", [SHOWN, PLAIN.hex, str(PLAIN), str(PLAIN).upper()])
def test_an_id_is_read_in_either_spelling(text: str) -> None:
    assert parse_public_id(text) == PLAIN
    assert {SHOWN, str(PLAIN), text} <= {*spellings(text)}


def test_an_answer_has_the_fields_of_its_record_and_ids_with_the_prefixes_of_their_kinds() -> None:
    shown = fields_as_in(Stored(PLAIN, PLAIN, None, PLAIN), Shown)
    assert shown == {"message_id": SHOWN, "batch_id": None, "queue_id": PLAIN}
    assert type(shown["message_id"]) is Id
    assert type(shown["queue_id"]) is UUID  # Queues have no prefix.


def test_an_error_names_what_is_missing_by_its_prefix() -> None:
    assert {*ID_PREFIXES.values()} < {*Prefix}
    assert SHOWN in str(NotFound("message", PLAIN))
    assert str(NotFound("node", PLAIN)) == f"there is no node {PLAIN}"

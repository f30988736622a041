"""Errors: codes are unique, and errors can be pickled."""

from __future__ import annotations

import pickle

import pytest

from tickwork import errors
from tickwork.app.invocation import BatchNotStored, HandlerEnded, TooManySends
from tickwork.errors import FieldError, TickworkError
from tickwork.service.node import HeartbeatEnded
from tickwork.testing import HandlerFailed, NeverEnds

EVERY_ERROR: list[TickworkError] = [
    errors.TickworkError("something"),
    errors.InvalidInput([FieldError("body", "is empty"), FieldError("key", "is too long")]),
    errors.NotFound("queue", "emails"),
    errors.Conflict("it is there already"),
    errors.RequestRunning("it is still running"),
    errors.OlderCode("it has schema_version 2"),
    errors.PreconditionFailed("queue", "emails"),
    errors.BacklogFull("emails", 1_000_000),
    errors.Unauthorized("key_expired", "API key k1 has expired"),
    errors.Forbidden("needs_read", "this needs a key with the scope read"),
    errors.TooMany("tenant default has as many schedules as it may"),
    errors.RateExceeded("you make too many requests", "key_requests_per_second", 0.5, 100.0),
    errors.ClaimLost(["a", "b"]),
    errors.EventDone(["a"]),
    errors.NodeExpired("n"),
    errors.StepFailed("charge", "ValueError", "no luck"),
    errors.EventTimedOut("approval", "EventTimedOut", "no event came in time"),
    errors.RunFailed("brand-7", "failed", "step 'charge' failed"),
    errors.EntityBusy("Brand", "a", "is busy"),
    errors.EntityMoved("Brand", "a", "was lost"),
    errors.EntityCycle("Brand", "a", "waits"),
    errors.EntityCallFailed("Brand", "a", "failed"),
    errors.ServiceUnavailable("keys", "did not answer"),
    errors.ServiceFailed("keys", 404, "no such key"),
    errors.MissingExtra("tickwork up", "HTTP server", "server"),
    errors.StoreError("no"),
    errors.StoreUnavailable("not now"),
    errors.StoreBroken("not ever"),
    BatchNotStored("a"),
    HandlerEnded(),
    TooManySends(),
    HeartbeatEnded("an error"),
    HandlerFailed("it raised"),
    NeverEnds("more than 1,000 steps"),
]


def all_kinds(kind: type[TickworkError] = TickworkError) -> set[type[TickworkError]]:
    return {kind}.union(*(all_kinds(subclass) for subclass in kind.__subclasses__()))


def test_every_error_has_an_example() -> None:
    kinds = {kind for kind in all_kinds() if kind.__module__.startswith("tickwork.")}
    named = {kind for kind in kinds if not kind.__name__.startswith("_")}
    assert named == {type(error) for error in EVERY_ERROR}


def test_codes_are_unique() -> None:
    codes = [type(error).code for error in EVERY_ERROR]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
def test_an_error_can_be_pickled(error: TickworkError) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 (made here)
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)

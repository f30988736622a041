"""One claim under way on SQLite: what it may still take, and what it has.

The rate counts everything that is taken, the cap of a tenant what it has in hand. A message
whose event is done is acked unseen, wherever it is met.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

import msgspec

from tickwork.core.model import ClaimRequest, Scope
from tickwork.core.queue import rate_limit as rate
from tickwork.core.queue.stats import Passing
from tickwork.store.lanes import Portion
from tickwork.store.sqlite import rows
from tickwork.store.sqlite.finding import Found
from tickwork.store.sqlite.handing import Handed, in_order, large_bodies, read
from tickwork.store.sqlite.leaving import leave
from tickwork.store.sqlite.pieces import Transaction
from tickwork.store.sqlite.statements import SQL
from tickwork.store.sqlite.times import duration, from_microseconds, to_microseconds


class Taking:
    """Takes what a request asks for and its queue allows."""

    def __init__(self, transaction: Transaction, queue: Found, request: ClaimRequest) -> None:
        self.transaction, self.queue, self._request = transaction, queue, request
        self.found: list[Handed] = []
        self.bodies: dict[int, bytes] = {}
        self._doubles = 0
        self._looks = 0
        self._limit = request.limit
        self._allowed: int | None = None
        settings = queue.settings
        self._claimed_max, self._rate = settings.tenant_claimed_max, settings.rate_per_second
        if self._rate is not None:
            now = from_microseconds(transaction.now)
            self._allowed = rate.allowance(self._spent_until, now, self._rate)

    @property
    def missing(self) -> int:
        """How many more it may take."""
        if self._allowed is None:
            return self._limit - len(self.found)
        return min(self._limit, self._allowed - self._doubles) - len(self.found)

    def in_order(self) -> list[Handed]:
        """What it has, the most urgent and oldest first; of one lane it came so."""
        return self.found if self._looks <= 1 else in_order(self.found)

    def take(self, portions: Sequence[Portion]) -> bool:
        """Hands out what the portions have; True if there were doubles among it, which are
        acked instead, so that there may be more.

        A tenant's portion is for its lanes together: many priorities do not make it larger.
        """
        queue_id, now = self.queue.id, self.transaction.now
        before, doubles, missing = len(self.found), self._doubles, self.missing
        for tenant, own in groupby(portions, key=lambda portion: portion.lane.tenant):
            if missing <= 0:
                break
            taken, room = 0, self._room(tenant)
            for portion in own:
                limit = min(missing, portion.quota, room) - taken
                if limit > 0:
                    values = (queue_id, tenant, portion.lane.priority, now, limit)
                    found = read(self.transaction, SQL.claim, values)
                    self._looks += bool(found)
                    self.found += self._without_doubles(found)
                    taken += len(found)
            missing -= taken
        self._hand_out(self.found[before:])
        return self._doubles > doubles

    def take_apart(self, scope: Scope) -> None:
        """Hands out what must run with nothing else beside it."""
        own = (self.queue.id, scope.tenant, self.transaction.now, self._claimed_max)
        while self.missing > 0 and not self.found:
            suspects = read(self.transaction, SQL.claim_apart, (*own, self.missing))
            if not suspects:
                break
            self.found += self._without_doubles(suspects)
        self._hand_out(self.found)

    def spend(self) -> None:
        """Notes what was taken from the rate."""
        taken = len(self.found) + self._doubles
        if self._rate is not None and taken:
            now = from_microseconds(self.transaction.now)
            until = rate.spend(self._spent_until, now, self._rate, taken)
            self.transaction.execute(SQL.spend, (self.queue.id, to_microseconds(until)))

    @property
    def _spent_until(self) -> datetime | None:
        until = self.queue.spent_until
        return None if until is None else from_microseconds(until)

    def _room(self, tenant: str) -> int:
        """How many more the tenant may have in hand; what is found now is not handed out yet."""
        if self._claimed_max is None:
            return self._limit
        values = (self.queue.id, tenant)
        (claimed,) = self.transaction.execute(SQL.count_claimed, values).fetchone()
        return max(self._claimed_max - int(claimed), 0)

    def _without_doubles(self, found: list[Handed]) -> list[Handed]:
        """Acks those of one tenant's messages whose event is done; the others."""
        events = [each.event_id for each in found if each.event_id is not None]
        if not events:
            return found
        asked = msgspec.json.encode(events).decode()
        values = (found[0].tenant, self.queue.id, asked)
        known = {event for (event,) in self.transaction.execute(SQL.events_known, values)}
        places = [each.place for each in found if each.event_id in known]
        if not places:
            return found
        gone = self.transaction.execute(SQL.delete_places, (rows.as_json(places),)).fetchall()
        leave(self.transaction, gone, Passing.DONE)
        self._doubles += len(places)
        return [each for each in found if each.event_id not in known]

    def _hand_out(self, found: Sequence[Handed]) -> None:
        request, lease_until = self._request, None
        if request.lease_seconds is not None:
            lease_until = self.transaction.now + duration(request.lease_seconds)
        if found:
            self.bodies |= large_bodies(self.transaction, found)
            places = rows.as_json(each.place for each in found)
            is_counted = self._claimed_max is not None
            values = (request.holder.bytes, lease_until, places, self.transaction.now, is_counted)
            self.transaction.execute(SQL.hand_out, values)

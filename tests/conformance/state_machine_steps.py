"""The steps of the state machine, and how often each is taken."""

from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.conformance.acts import ALL, ENDS
from tickwork.core.model import SYSTEM, Fate, QueueSettings, Scope

TTL_SECONDS = 15
LEASE_SECONDS = 30
NODES_MAX = 8
"""Maximum number of rows that one pass of any reaper ends."""

DAY_SECONDS = 86_400

ONE, TWO = Scope("one"), Scope("two")


class Place(NamedTuple):
    """A queue, and the scope that uses it."""

    scope: Scope
    queue: str


OWN_OF_ONE, OWN_OF_TWO = Place(ONE, "own"), Place(TWO, "own")
SHARED = Place(SYSTEM, "shared")
BACKLOG_BYTES_MAX = 128_000

SETTINGS = {
    OWN_OF_ONE: QueueSettings(
        max_retries=1, retention_seconds=600, backlog_bytes_max=BACKLOG_BYTES_MAX
    ),
    OWN_OF_TWO: QueueSettings(max_retries=1, retention_seconds=600, dead_letter_queue="shared"),
    SHARED: QueueSettings(max_retries=1, retention_seconds=600),
}
HALF_BYTES = BACKLOG_BYTES_MAX // 2 - 50
"""Two of them leave bytes free for some small bodies, but for no event beside these."""

BODIES = {"half": b"x" * HALF_BYTES, "all": b"x" * BACKLOG_BYTES_MAX}
# Tenant one and the shared queue are more frequent: more can go wrong there.
PLACES = [OWN_OF_ONE, OWN_OF_ONE, Place(ONE, "shared"), Place(TWO, "shared"), OWN_OF_TWO]
EVERY_PLACE = [*dict.fromkeys(PLACES), SHARED]


class Step(NamedTuple):
    """A method of the machine and its arguments."""

    act: str
    how: dict[str, Any]


places = st.sampled_from(PLACES)
every_place = st.sampled_from(EVERY_PLACE)
fates = st.sampled_from(ENDS)
usually = st.sampled_from([True, True, True, False])
picks = st.integers(0, 5)
"""Index from the end of what was sent, claimed or joined."""

message_fields = st.sampled_from(
    [
        {},
        {},
        {"key": "a"},
        {"key": "a"},
        {"key": "a", "priority": 9},
        {"key": "a", "event_id": "paid-1"},
        {"key": "a", "expires_after_seconds": 10},
        {"key": "b"},
        {"key": "b", "delay_seconds": 5, "type": "paid"},
        {"priority": 9},
        {"priority": 0},
        {"event_id": "paid-1"},
        {"event_id": "paid-1", "type": "paid"},
        {"event_id": "paid-2", "priority": 9},
        {"delay_seconds": 5},
        {"delay_seconds": 60, "expires_after_seconds": 40},
        {"expires_after_seconds": 10},
        {"type": "paid", "source": "shop"},
        {"type": "sent"},
        {"fills": "half"},
        {"fills": "half"},
        {"fills": "all", "key": "b"},
        {"run": 1},
        {"run": 2, "type": "paid"},
        {"run": 3},
    ]
)
several_messages = st.lists(message_fields, min_size=1, max_size=4)
bad_fields = st.sampled_from([{"priority": 10}, {"delay_seconds": -1}, {"key": "a\0b"}])


def _times(times: int, act: str, /, **how: st.SearchStrategy[Any]) -> list[st.SearchStrategy[Step]]:
    return [st.builds(Step, st.just(act), st.fixed_dictionaries(how))] * times


steps = st.one_of(
    *_times(
        4,
        "send",
        place=places,
        many=several_messages,
        repeats=st.lists(picks, max_size=2),
        bad=st.none() | st.none() | st.none() | bad_fields,
    ),
    *_times(
        6,
        "claim",
        where=picks | picks | places,
        limit=st.sampled_from([2, 1, ALL]),
        lease_seconds=st.sampled_from([None, None, LEASE_SECONDS]),
        pick=picks,
        alive=usually,
    ),
    *_times(
        2,
        "claim_separately_or_for_all",
        separate=st.booleans(),
        place=every_place,
        limit=st.sampled_from([ALL, 1, 2]),
    ),
    *_times(1, "extend", pick=picks, lease_seconds=st.sampled_from([0, LEASE_SECONDS])),
    *_times(
        4,
        "settle",
        chosen=st.lists(picks, min_size=1, max_size=3),
        fate=fates,
        delay_seconds=st.sampled_from([0, 7]),
        error=st.sampled_from([None, "boom"]),
    ),
    *_times(1, "settle_in_mixed_ways", chosen=st.lists(picks, min_size=2, max_size=4)),
    *_times(
        2,
        "settle_and_send",
        pick=picks,
        fate=st.sampled_from([Fate.ACK, *ENDS]),
        queue=st.sampled_from(["own", "own", "shared", "shared", "nowhere"]),
        fields=message_fields,
    ),
    *_times(
        2,
        "settle_and_make",
        pick=picks,
        fate=st.sampled_from([Fate.ACK, *ENDS]),
        queue=st.sampled_from(["own", "own", "shared"]),
        many=st.lists(message_fields, max_size=3),
        taken=st.none() | st.none() | picks,
        again=st.sampled_from([False, False, True]),
    ),
    *_times(
        1,
        "settle_what_is_not_held",
        pick=picks,
        fate=fates,
        how=st.sampled_from(["holder", "claim", "tenant", "scope"]),
    ),
    *_times(
        2,
        "manage",
        what=st.sampled_from(
            ["crash", "delete", "delete", "make anew", "pause", "purge", "resume", "resume"]
        ),
        place=every_place,
        pick=picks,
    ),
    *_times(
        2, "live", pick=picks, what=st.sampled_from(["beat", "beat", "give back", "join", "leave"])
    ),
    *_times(
        3,
        "die",
        seconds=st.sampled_from([TTL_SECONDS] * 5 + [1, 5, 10] * 2 + [LEASE_SECONDS, 600]),
        reap=usually,
    ),
    *_times(2, "kill", place=every_place, separate=st.sampled_from([False, False, True])),
    *_times(1, "look", place=every_place),
    *_times(
        2,
        "bury",
        chosen=st.lists(picks, min_size=1, max_size=3),
        error=st.sampled_from(["boom 1", "boom 2", "ouch", None]),
    ),
    *_times(
        3,
        "letters",
        what=st.sampled_from(["replay", "replay", "discard", "edit", "groups"]),
        where=picks | picks | every_place,
        chosen=st.lists(picks, min_size=1, max_size=3),
        spacing_seconds=st.sampled_from([0, 0, 4]),
    ),
    *_times(
        2,
        "create",
        place=places,
        many=st.lists(message_fields, max_size=3),
        completion_queue=st.sampled_from(["own", "shared", "nowhere", None]),
        taken=st.none() | st.none() | picks,
    ),
    *_times(
        1,
        "finish",
        place=places,
        fate=st.sampled_from([Fate.ACK, Fate.DEAD]),
        fields=st.sampled_from([{"fills": "half"}, {"fills": "half"}, {}]),
    ),
    *_times(
        1, "batches", what=st.sampled_from(["look", "cancel", "repeat", "elsewhere"]), pick=picks
    ),
    *_times(
        1,
        "subscribe",
        what=st.sampled_from(["put", "put", "delete"]),
        place=st.sampled_from([*EVERY_PLACE, SHARED, Place(ONE, "nowhere")]),
        types=st.sampled_from(["paid", "pa*", "*", "batch.completed", "a*b"]),
    ),
    *_times(
        1,
        "govern_tenant",
        name=st.sampled_from(["one", "two"]),
        weight=st.sampled_from([1, 3, 0]),
        suspended=st.sampled_from([False, False, True]),
    ),
    *_times(
        2,
        "govern_queue",
        what=st.sampled_from(
            ["retries", "rate", "no backlog", "cap of all", "cap", "free", "free"]
        ),
        pick=picks,
    ),
    *_times(1, "prune", days=st.sampled_from([0, 0, 0, 2, 15])),
)

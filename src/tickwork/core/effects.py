"""Effects: what the end of a handler changes besides its message, and how they are settled.

An effect is a struct of the feature that it belongs to. Each store has a writer for each kind of
effect, next to the rows of the feature. Settling knows no feature: it gives all effects of one kind
to their writer at once, in the order of their ranks, in this transaction:

```
  the messages                    what writers of effects do                    hook

                                  what must be read or written while the
                                  claims still exist                            record
  acked       ┐
  released    │ if claimed by     wakes those that need not wait any more       released
  dead        │ exactly this      what must precede the dead letter             before_death
  kept        ┘ claim             records under the claim, which stays          keep
                                  deletes what was recorded for duplicates      forget
                                  ranks below `KEY`: writes                     write
                                  ranks above `KEY`: adds keys and messages     prepare
  locks all keys
                                  ranks above `KEY`: writes                     write
  sends, copies, batches
  unblocks keys, counts batches, writes backlogs
```

1. **Fenced.** `record` and `keep` check the claims themselves. `released` and `before_death` get
   effects of messages that are locked. `write` and `prepare` get those whose claims were valid and
   whose events were new, in the order of the endings.
2. **Ranks order locks.** A writer locks only rows of its rank, and sorts them. PostgreSQL would
   find a deadlock otherwise. SQLite has one writer at a time and locks nothing: there is no
   `prepare` and no `forget`, as what is recorded first can be written last.
3. **Set-based.** A writer handles all effects of its kind in a fixed number of statements. In
   SQLite a statement is no round trip, so a writer may run one per effect.
4. **Plain acks.** Most messages are acked by one statement, without a transaction around it. A
   kind may join it: `is_plain` says which effects can. On PostgreSQL the writer gives them as
   columns of the statement `ack_plain` (`plain_columns`, in the order of ranks), on SQLite it
   writes them first (`write_plain`).
5. **Duplicates.** An ack of an event that was processed before, or a step that was recorded before
   (`keep` says so), is a duplicate: its message ends, and its effects and sends are not stored.

What a handler sends, messages and batches, are fields of the ending and not effects: other effects
send, too, and settling stores all of it together.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import ClassVar

from msgspec import Struct

from tickwork.errors import FieldError


class LockRank(IntEnum):
    """What a settlement locks, in this order. All that it locks of one rank is locked together."""

    MESSAGE = 1
    """The claimed messages, and what may be locked only after them: an endpoint that is shared."""

    RUN = 2
    """Runs of workflows. Whoever changes a run locks its message first."""

    ENTITY = 3
    """Entities, and the messages of their alarms, which a transaction that waits for a key may
    hold."""

    KEY = 4
    """The keys of messages that are sent, removed or withdrawn. Settling locks them itself."""

    SCHEDULE = 5
    """Schedules, and then the slots that are withdrawn."""


class Effect(Struct, frozen=True):
    """What an ending changes besides its message. Base class."""

    RANK: ClassVar[LockRank]

    MAY_BE_REFUSED: ClassVar[bool] = False
    """Whether the store may refuse to write it. Its message is then settled alone, as failed if it
    is refused."""

    @property
    def part(self) -> str | None:
        """Which of several endings of one claim it belongs to, if all of them count; None if only
        the first does."""
        return None

    @property
    def skip_reason(self) -> str | None:
        """Why the message was not handled although it is acked; None if it was."""
        return None

    def faults(self, prefix: str) -> Iterable[FieldError]:  # noqa: ARG002  for those that have some
        """What cannot be stored. The names of fields start with the prefix."""
        return ()

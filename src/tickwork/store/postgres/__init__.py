"""The store on PostgreSQL: many nodes, one truth.

Every intention is one statement where that is possible and one transaction where it is not;
the fences (a claim's number and holder, a node's lease, a queue's existence) stand in the
statement that writes. Nothing relies on a session: all but LISTEN works behind a pooler that
gives connections out by transaction.

Whoever takes several things takes them in this order, and of each kind in the order of their keys:

```
  a node · a tenant with limits · a queue
      → messages in one's own hand: nobody else wants them
      → keys → shards → schedules → messages that wait
      → batches' counts → backlogs
```

Who has a schedule passes over messages that somebody else is at, and does not wait for them: their
holder may be on the way to the schedule.
"""

from tickwork.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]

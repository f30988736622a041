"""The store on PostgreSQL, for any number of nodes.

Each operation is one statement where possible, else one transaction. The statement that writes also
checks the fences: a claim's number and holder, a node's lease, a queue's existence. Nothing depends
on a session: everything but LISTEN works behind a pooler in transaction mode.

Transactions take locks in this order, and within each kind in the order of keys:

```
  a node · a tenant with limits · a queue
      → messages that the transaction's own claims cover: no one else wants them
      → keys → shards → schedules → messages that wait
      → batches' counts → backlogs
```

A transaction that has locked a schedule skips messages that others have locked. It must not wait
for them: their holder may be waiting for the schedule.
"""

from tickwork.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]

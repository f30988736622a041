"""The store on PostgreSQL, for any number of nodes.

Each operation is one statement where possible, else one transaction. The statement that writes also
checks the fences: a claim's number and holder, a node's lease, a queue's existence. Nothing depends
on a session: everything but LISTEN works behind a pooler in transaction mode.

**Lock order.** Every transaction locks in this order, and within a kind by primary key, to avoid
deadlocks:

1. a node, a tenant with limits, or a queue
2. messages that the transaction's own claims cover; no other transaction waits for these
3. keys
4. shards
5. schedules
6. waiting messages
7. counters of batches
8. backlogs

A transaction that has locked a schedule skips messages locked by others (SKIP LOCKED). It must not
wait for them: their owner may be waiting for the schedule.
"""

from tickwork.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]

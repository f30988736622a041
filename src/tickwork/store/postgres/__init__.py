"""The store on PostgreSQL: many nodes, one truth.

Every intention is one statement where that is possible and one transaction where it is not;
the fences (a claim's number and holder, a node's lease, a queue's existence) stand in the
statement that writes. Nothing relies on a session: all but LISTEN works behind a pooler that
gives connections out by transaction.
"""

from tickwork.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]

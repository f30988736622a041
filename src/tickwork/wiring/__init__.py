"""Settings → running parts; the only package that knows all others.

```
backend      the two kinds of databases, before they are open
database     open, migrate, examine, copy one
deliveries   what delivers outside: guard, secrets, channels, their consumers
assembly     a node, its consumers and its scheduler; also under the virtual clock of a harness
worker       the worker of a process, with its logs, metrics and watchdog
server       what serves HTTP in a process
processes    the parent of several processes of one app
```
"""

from tickwork.extras import delivery_extra, otel_extra, postgres_extra, server_extra
from tickwork.settings import RUN_ROLES, Role, Settings, load_settings, read_topology
from tickwork.store.shared.database_url import without_password
from tickwork.wiring.database import (
    copy,
    database_identity,
    examine,
    has_one_writer,
    migrate,
    open_store,
    shown_database,
    thaw_database,
)
from tickwork.wiring.deliveries import guard, remote_service, secret_box, webhook_sink
from tickwork.wiring.worker import build_worker, context_of, node_name, start_tracing

__all__ = [
    "RUN_ROLES",
    "Role",
    "Settings",
    "build_worker",
    "context_of",
    "copy",
    "database_identity",
    "delivery_extra",
    "examine",
    "guard",
    "has_one_writer",
    "load_settings",
    "migrate",
    "node_name",
    "open_store",
    "otel_extra",
    "postgres_extra",
    "read_topology",
    "remote_service",
    "secret_box",
    "server_extra",
    "shown_database",
    "start_tracing",
    "thaw_database",
    "webhook_sink",
    "without_password",
]

-- Long work on many rows that nodes carry on in batches. `version` fences each write; nobody carries on a batch before
-- `due_at`. Without a tenant it is the system's. `selection`, `position` and `canaries` are JSON.
CREATE TABLE tickwork_operations (
    id BLOB NOT NULL PRIMARY KEY,
    tenant TEXT REFERENCES tickwork_tenants,
    kind TEXT NOT NULL,
    selection TEXT NOT NULL,
    started_by TEXT,
    started_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    total INTEGER NOT NULL,
    is_estimate INTEGER NOT NULL,
    canary INTEGER NOT NULL,
    canary_timeout_seconds REAL NOT NULL,
    rate_per_second REAL,
    done INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    position TEXT,
    canaries TEXT,
    paced_until INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    version INTEGER NOT NULL,
    reason TEXT,
    error TEXT,
    stopped_by TEXT,
    finished_at INTEGER
) STRICT;
CREATE INDEX tickwork_operations_tenant ON tickwork_operations (tenant, id);
CREATE INDEX tickwork_operations_due ON tickwork_operations (due_at) WHERE finished_at IS NULL;
CREATE INDEX tickwork_operations_finished ON tickwork_operations (finished_at) WHERE finished_at IS NOT NULL;

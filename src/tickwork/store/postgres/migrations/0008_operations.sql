-- Long work on many rows that nodes carry on in batches. `version` fences each write; nobody carries on a batch before
-- `due_at`. Without a tenant it is the system's. `selection`, `position` and `canaries` are JSON.
CREATE TABLE tickwork_operations (
    id uuid PRIMARY KEY,
    tenant text COLLATE "C" REFERENCES tickwork_tenants,
    kind text COLLATE "C" NOT NULL,
    selection text NOT NULL,
    started_by text,
    started_at timestamptz NOT NULL,
    state text COLLATE "C" NOT NULL,
    total bigint NOT NULL,
    is_estimate boolean NOT NULL,
    canary integer NOT NULL,
    canary_timeout_seconds float8 NOT NULL,
    rate_per_second float8,
    done bigint NOT NULL,
    failed bigint NOT NULL,
    skipped bigint NOT NULL,
    position text,
    canaries text,
    paced_until timestamptz NOT NULL,
    due_at timestamptz NOT NULL,
    version bigint NOT NULL,
    reason text COLLATE "C",
    error text,
    stopped_by text,
    finished_at timestamptz
);
CREATE INDEX tickwork_operations_tenant ON tickwork_operations (tenant, id);
CREATE INDEX tickwork_operations_due ON tickwork_operations (due_at) WHERE finished_at IS NULL;
CREATE INDEX tickwork_operations_finished ON tickwork_operations (finished_at) WHERE finished_at IS NOT NULL;

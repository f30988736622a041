-- Encrypted secrets: of a tenant, of an endpoint. `number` 0 is the current value, 1 the one before.

CREATE TABLE tickwork_secrets (
    tenant TEXT NOT NULL REFERENCES tickwork_tenants (id),
    owner TEXT NOT NULL,
    field TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number IN (0, 1)),
    value BLOB NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (tenant, owner, field, number)
) STRICT, WITHOUT ROWID;

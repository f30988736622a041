-- API keys. Only hashes of their secrets are stored: the current one, and while it rotates the one before.

CREATE TABLE tickwork_api_keys (
    id TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL REFERENCES tickwork_tenants (id),
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    owner TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,
    revoked_at INTEGER,
    secret_hash BLOB NOT NULL,
    previous_hash BLOB,
    previous_until INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX tickwork_api_keys_tenant ON tickwork_api_keys (tenant, id);

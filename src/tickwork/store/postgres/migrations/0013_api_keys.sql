-- API keys. Only hashes of their secrets are stored: the current one, and while it rotates the one before.

CREATE TABLE tickwork_api_keys (
    id text COLLATE "C" PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL REFERENCES tickwork_tenants (id),
    name text COLLATE "C" NOT NULL,
    scopes text COLLATE "C" NOT NULL,
    owner text COLLATE "C",
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz,
    secret_hash bytea NOT NULL,
    previous_hash bytea,
    previous_until timestamptz
);
CREATE INDEX tickwork_api_keys_tenant ON tickwork_api_keys (tenant, id);

-- Encrypted secrets: of a tenant, of an endpoint. `number` 0 is the current value, 1 the one before.

CREATE TABLE tickwork_secrets (
    tenant text COLLATE "C" NOT NULL REFERENCES tickwork_tenants (id),
    owner text COLLATE "C" NOT NULL,
    field text COLLATE "C" NOT NULL,
    number smallint NOT NULL CHECK (number IN (0, 1)),
    value bytea NOT NULL,
    expires_at timestamptz,
    PRIMARY KEY (tenant, owner, field, number)
);

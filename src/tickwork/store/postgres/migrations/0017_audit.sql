-- The audit log: who changed what. `before` and `after` are JSON without secrets.

CREATE TABLE tickwork_audit (
    id uuid PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL REFERENCES tickwork_tenants (id),
    at timestamptz NOT NULL,
    actor text COLLATE "C" NOT NULL,
    action text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    before text COLLATE "C",
    after text COLLATE "C"
);
CREATE INDEX tickwork_audit_tenant ON tickwork_audit (tenant, id);
CREATE INDEX tickwork_audit_at ON tickwork_audit (at);

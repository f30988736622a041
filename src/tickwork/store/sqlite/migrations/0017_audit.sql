-- The audit log: who changed what. `before` and `after` are JSON without secrets.

CREATE TABLE tickwork_audit (
    id BLOB NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL REFERENCES tickwork_tenants (id),
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    before TEXT,
    after TEXT
) STRICT;
CREATE INDEX tickwork_audit_tenant ON tickwork_audit (tenant, id);
CREATE INDEX tickwork_audit_at ON tickwork_audit (at);

-- Requests with an Idempotency-Key: what they were, and their answer once they have one.

CREATE TABLE tickwork_requests (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    seed BLOB NOT NULL,
    started_at INTEGER NOT NULL,
    answer BLOB,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_requests_age ON tickwork_requests (started_at);

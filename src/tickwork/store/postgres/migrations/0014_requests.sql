-- Requests with an Idempotency-Key: what they were, and their answer once they have one.

CREATE TABLE tickwork_requests (
    tenant text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    seed uuid NOT NULL,
    started_at timestamptz NOT NULL,
    answer bytea,
    PRIMARY KEY (tenant, key)
);

CREATE INDEX tickwork_requests_age ON tickwork_requests (started_at);

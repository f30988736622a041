-- Deliveries to endpoints that use a named limit with a concurrency. A use ends with its claim; the next one who
-- takes from the limit deletes it.
CREATE TABLE tickwork_limit_uses (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    message_id BLOB NOT NULL,
    claim INTEGER NOT NULL,
    PRIMARY KEY (tenant, name, message_id)
) STRICT, WITHOUT ROWID;

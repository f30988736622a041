-- What tenants used, by the hour. The pass that rolls up the notes of settlements adds to these rows.
CREATE TABLE tickwork_usage (
    tenant TEXT NOT NULL,
    period INTEGER NOT NULL,
    measure TEXT NOT NULL,
    amount INTEGER NOT NULL,
    PRIMARY KEY (tenant, period, measure)
) STRICT, WITHOUT ROWID;
CREATE INDEX tickwork_usage_age ON tickwork_usage (period);

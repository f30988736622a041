-- What tenants used, by the hour. The pass that rolls up the notes of settlements adds to these rows.
CREATE TABLE tickwork_usage (
    tenant text COLLATE "C" NOT NULL,
    period timestamptz NOT NULL,
    measure text COLLATE "C" NOT NULL,
    amount bigint NOT NULL,
    PRIMARY KEY (tenant, period, measure)
) WITH (fillfactor = 70);
CREATE INDEX tickwork_usage_age ON tickwork_usage (period);

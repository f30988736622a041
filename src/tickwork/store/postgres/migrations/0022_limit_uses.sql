-- Deliveries to endpoints that use a named limit with a concurrency. A use ends with its claim; the next one who
-- takes from the limit deletes it.
CREATE TABLE tickwork_limit_uses (
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    message_id uuid NOT NULL,
    claim bigint NOT NULL,
    PRIMARY KEY (tenant, name, message_id)
);

-- Stores a delivery whose message exists already, and its event, which has the same id, unless it is sent once
-- (`$14`); each once. A replay gives the delivery another message. If the last answer was `$15`, it is waiting again.
-- Returns whether it is still to be made.
WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now),
event AS (
    INSERT INTO tickwork_published (tenant, published_at, /*published*/)
    SELECT $2::text, now, $6::uuid, $7::smallint, $8::smallint, $9::text, $10::text, $11::text, $12::text, $13::bytea
    FROM moment
    WHERE NOT $14::boolean
    ON CONFLICT DO NOTHING
)
INSERT INTO tickwork_deliveries AS d (
    tenant, published_at, id, message_id, endpoint_id, published_id, event_id, type
)
SELECT $2, now, $6, $3::uuid, $4::uuid, $6, $5::text, $9 FROM moment
ON CONFLICT (id) DO UPDATE
SET message_id = excluded.message_id, dead_at = NULL,
    delivered_at = CASE WHEN d.last_code = $15::integer THEN NULL ELSE d.delivered_at END
RETURNING d.delivered_at IS NULL

-- Creates a calendar or replaces its days; the same days are no change. Versions start at the current time, so that a
-- calendar that was deleted and created again has a new version.
INSERT INTO tickwork_calendars AS known (tenant, name, days, version, updated_at)
SELECT $2, $3, $4, (extract(epoch FROM moment.now) * 1000000)::bigint, moment.now
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
ON CONFLICT (tenant, name) DO UPDATE SET
    days = excluded.days,
    version = known.version + (known.days <> excluded.days)::integer,
    updated_at = CASE WHEN known.days = excluded.days THEN known.updated_at ELSE excluded.updated_at END
RETURNING tenant, name, days, version, updated_at

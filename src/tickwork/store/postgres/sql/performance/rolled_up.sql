-- The rows of some periods, as they are.
SELECT p.width, p.period, p.tenant, p.queue, p.type, p.done, p.failed, p.discarded, p.waits, p.runs
FROM unnest($1::text[], $2::timestamptz[], $3::text[], $4::text[], $5::text[]) AS new (width, period, tenant, queue, type)
CROSS JOIN LATERAL (
    SELECT * FROM tickwork_performance
    WHERE tenant = new.tenant AND width = new.width AND period = new.period AND queue = new.queue AND type = new.type
    LIMIT 1
) AS p

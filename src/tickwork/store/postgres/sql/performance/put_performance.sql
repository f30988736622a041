-- Writes the rows of some periods.
INSERT INTO tickwork_performance (width, period, tenant, queue, type, done, failed, discarded, waits, runs)
SELECT * FROM unnest(
    $1::text[], $2::timestamptz[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[], $10::text[]
)
ON CONFLICT (tenant, width, period, queue, type) DO UPDATE SET
    done = excluded.done, failed = excluded.failed, discarded = excluded.discarded,
    waits = excluded.waits, runs = excluded.runs

-- Writes the row of a period.
INSERT INTO tickwork_performance (width, period, tenant, queue, type, done, failed, discarded, waits, runs)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (tenant, width, period, queue, type) DO UPDATE SET
    done = excluded.done, failed = excluded.failed, discarded = excluded.discarded,
    waits = excluded.waits, runs = excluded.runs

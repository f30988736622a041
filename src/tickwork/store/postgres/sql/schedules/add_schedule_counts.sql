-- Adds to the number of schedules that may still fire, by tenant, or subtracts.
INSERT INTO tickwork_schedule_counts AS known (tenant, stripe, schedules)
SELECT new.tenant, pg_current_xact_id()::text::bigint % /*stripes*/, new.schedules
FROM unnest($1::text[], $2::bigint[]) AS new (tenant, schedules)
ORDER BY new.tenant
ON CONFLICT (tenant, stripe) DO UPDATE SET schedules = known.schedules + excluded.schedules

-- What a look at the health reads: schedules that are parked or whose last slot failed, and runs with an error.
CREATE INDEX tickwork_schedules_trouble ON tickwork_schedules (tenant, id)
    WHERE status = 'parked' OR (status = 'active' AND last_status IN ('failed', 'dead', 'expired'));
CREATE INDEX tickwork_runs_trouble ON tickwork_runs (tenant, finished_at, uid)
    WHERE parent_id IS NULL AND error IS NOT NULL;

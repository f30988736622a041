-- The next slots of a tenant, soonest first: the list of what is upcoming reads as many as it shows.
CREATE INDEX tickwork_schedules_due ON tickwork_schedules (tenant, due_at, id)
    WHERE status = 'active' AND due_at IS NOT NULL;

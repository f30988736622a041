-- Schedules that a dead slot paused, which the health reports.
CREATE INDEX tickwork_schedules_stopped ON tickwork_schedules (tenant, id)
    WHERE status = 'paused' AND on_dead = 'pause' AND last_status = 'dead';

-- Quotas of a tenant for its messages; until when its rate of sends is spent; how many schedules it has.

ALTER TABLE tickwork_tenants ADD COLUMN messages_per_second REAL;
ALTER TABLE tickwork_tenants ADD COLUMN messages_spent_until INTEGER;
ALTER TABLE tickwork_tenants ADD COLUMN payload_bytes_max INTEGER;
ALTER TABLE tickwork_tenants ADD COLUMN backlog_max INTEGER;
ALTER TABLE tickwork_tenants ADD COLUMN claimed_max INTEGER;

-- How many schedules of the tenant may still fire.
ALTER TABLE tickwork_tenants ADD COLUMN schedules INTEGER NOT NULL DEFAULT 0;
UPDATE tickwork_tenants SET schedules = (
    SELECT count(*) FROM tickwork_schedules
    WHERE tenant = tickwork_tenants.id AND status IN ('active', 'paused', 'parked')
);
CREATE TRIGGER tickwork_schedules_created AFTER INSERT ON tickwork_schedules
WHEN new.status IN ('active', 'paused', 'parked')
BEGIN
    UPDATE tickwork_tenants SET schedules = schedules + 1 WHERE id = new.tenant;
END;
CREATE TRIGGER tickwork_schedules_ended AFTER UPDATE OF status ON tickwork_schedules
WHEN (new.status IN ('active', 'paused', 'parked')) <> (old.status IN ('active', 'paused', 'parked'))
BEGIN
    UPDATE tickwork_tenants
    SET schedules = schedules + iif(new.status IN ('active', 'paused', 'parked'), 1, -1)
    WHERE id = new.tenant;
END;

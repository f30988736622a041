-- A schedule may belong to a user of its tenant.

ALTER TABLE tickwork_schedules ADD COLUMN owner TEXT;
CREATE INDEX tickwork_schedules_owner ON tickwork_schedules (tenant, owner, id)
    WHERE owner IS NOT NULL;

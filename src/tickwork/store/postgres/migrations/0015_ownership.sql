-- Names and idempotency keys of schedules are unique per owner; a tenant lists what owners may target.

ALTER TABLE tickwork_tenants ADD COLUMN owner_targets text COLLATE "C" NOT NULL DEFAULT '[]';
DROP INDEX tickwork_schedules_name;
CREATE UNIQUE INDEX tickwork_schedules_name ON tickwork_schedules (tenant, name, coalesce(owner, ''))
    WHERE name IS NOT NULL AND status <> 'deleted';
DROP INDEX tickwork_schedules_key;
CREATE UNIQUE INDEX tickwork_schedules_key
    ON tickwork_schedules (tenant, idempotency_key, coalesce(owner, ''))
    WHERE idempotency_key IS NOT NULL;

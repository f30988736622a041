-- Sets the same outcome on schedules whose latest slots ended.
UPDATE tickwork_schedules SET error_count = ?2, last_error = ?3, last_status = ?4
WHERE place IN (SELECT value FROM json_each(?1))

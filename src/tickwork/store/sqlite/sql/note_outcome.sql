-- Notes on a schedule how its latest slot ended.
UPDATE tickwork_schedules SET error_count = ?2, last_error = ?3, last_status = ?4 WHERE place = ?1

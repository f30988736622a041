-- Sets the fire window that every schedule has at least, in seconds.
UPDATE tickwork_meta SET widened_seconds = ?1

-- The records of a slot.
SELECT /*firing*/ FROM tickwork_firings AS f INDEXED BY tickwork_firings_slot
WHERE tenant = ?1 AND schedule_id = ?2 AND slot = ?3

-- The alarm of an entity became a dead letter: it is no longer set, and can be replayed.
UPDATE tickwork_entities SET alarm_id = NULL, alarm_at = NULL, dead_alarm_id = ?3
WHERE tenant = ?1 AND id = ?2 AND alarm_id = ?3

-- Pauses everything (`?2`) or ends the pause. Returns since when it is paused.
UPDATE tickwork_meta SET paused_at = iif(?2, coalesce(paused_at, ?1), NULL) RETURNING paused_at

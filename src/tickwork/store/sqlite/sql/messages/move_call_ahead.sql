-- Moves a direct call before all messages of its key.
UPDATE tickwork_messages SET place = (SELECT min(place) FROM tickwork_messages) - 1 WHERE place = ?1

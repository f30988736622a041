-- The messages that were made last, by their places.
SELECT id FROM tickwork_messages WHERE place > ?1 AND place <= ?2

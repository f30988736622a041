-- What was stored last, by its places.
SELECT id, type, source, length(body) FROM tickwork_messages WHERE place > ?1 AND place <= ?2

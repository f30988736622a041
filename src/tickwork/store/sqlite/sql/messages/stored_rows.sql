-- The messages stored last, by rowid.
SELECT id, type, source, length(body) FROM tickwork_messages WHERE place > ?1 AND place <= ?2

-- The ids of the messages stored last, by rowid.
SELECT id FROM tickwork_messages WHERE place > ?1 AND place <= ?2

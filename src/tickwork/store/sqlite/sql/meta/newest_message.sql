-- The message stored last of those still there; another one than before means a send.
SELECT id, sent_at FROM tickwork_messages WHERE place = (SELECT max(place) FROM tickwork_messages)

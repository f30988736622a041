-- The message stored last of those still there; another one than before means a send.
SELECT id, sent_at FROM messages WHERE place = (SELECT max(place) FROM messages)

-- The message stored last of those still there; another one than before means a send.
SELECT id, sent_at FROM messages ORDER BY place DESC LIMIT 1

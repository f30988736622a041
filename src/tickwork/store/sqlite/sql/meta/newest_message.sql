-- The newest stored message that still exists. A change means that something was sent.
SELECT id, sent_at FROM tickwork_messages WHERE place = (SELECT max(place) FROM tickwork_messages)

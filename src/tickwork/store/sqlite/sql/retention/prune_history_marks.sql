-- Deletes marks of chunks whose time has come.
DELETE FROM tickwork_message_history_marks WHERE (drop_at, mark, place) IN (
    SELECT drop_at, mark, place FROM tickwork_message_history_marks WHERE drop_at <= ?1 LIMIT ?2
)

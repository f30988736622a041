-- Deletes chunks of the history whose time has come.
DELETE FROM tickwork_message_history WHERE place IN (
    SELECT place FROM tickwork_message_history WHERE drop_at <= ?1 LIMIT ?2
)

-- The rowids of the chunks with the mark in the placeholder.
WITH RECURSIVE hour (at) AS (
        SELECT min(drop_at) FROM tickwork_message_history_marks
        UNION ALL
        SELECT (SELECT min(drop_at) FROM tickwork_message_history_marks WHERE drop_at > hour.at) FROM hour
        WHERE hour.at IS NOT NULL
    )
    SELECT marks.place FROM hour CROSS JOIN tickwork_message_history_marks AS marks
    ON marks.drop_at = hour.at AND marks.mark = /*start*/

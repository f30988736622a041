-- The number of claimed messages of each holder.
SELECT holder, count(*) AS claims FROM tickwork_messages WHERE state = 'claimed' GROUP BY holder

-- Deletes published events past their retention, the oldest first.
DELETE FROM tickwork_published WHERE place IN (
    SELECT place FROM tickwork_published WHERE published_at <= ?1 ORDER BY published_at LIMIT ?2
)

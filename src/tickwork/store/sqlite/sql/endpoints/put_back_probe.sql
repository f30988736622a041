-- Puts a message that was pulled forward and not sent back to its own time, also while a dead node holds it. One that
-- was given another time since, such as by a resend, keeps that.
UPDATE tickwork_messages SET visible_at = ?3 WHERE tenant = ?1 AND id = ?2 AND visible_at < ?3 AND visible_at <= ?4

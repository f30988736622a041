-- Gives a delivery a new message: it is waiting again.
UPDATE tickwork_deliveries SET message_id = ?2, delivered_at = NULL, dead_at = NULL WHERE id = ?1 AND tenant = ?3

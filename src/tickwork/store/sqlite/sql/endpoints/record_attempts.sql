-- Stores an attempt at a delivery with the next number.
INSERT INTO tickwork_delivery_attempts (
    delivery_id, message_id, claim, at, took_seconds, code, kind, error, excerpt, number
)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, attempts + 1 FROM tickwork_deliveries WHERE id = ?1

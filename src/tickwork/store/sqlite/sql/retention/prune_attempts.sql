-- Deletes the attempts at a delivery.
DELETE FROM tickwork_delivery_attempts WHERE delivery_id = ?1

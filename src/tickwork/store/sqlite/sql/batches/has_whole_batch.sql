-- Whether a batch is there that is whole, in this queue and with so many items.
SELECT 1 FROM tickwork_batches WHERE tenant = ?1 AND id = ?2 AND queue_id = ?3 AND total = ?4

-- Whether a closed batch with this number of items exists in this queue.
SELECT 1 FROM tickwork_batches WHERE tenant = ?1 AND id = ?2 AND queue_id = ?3 AND total = ?4

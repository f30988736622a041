-- Closes a batch with the items it has.
UPDATE tickwork_batches SET total = stored WHERE tenant = ?1 AND id = ?2 AND total IS NULL

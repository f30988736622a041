-- How far the filling of a batch is.
SELECT queue_id, stored, total FROM tickwork_batches WHERE tenant = $1 AND id = $2

-- Whether a send with this receipt is committed.
SELECT EXISTS (SELECT FROM tickwork_receipts WHERE id = $1)

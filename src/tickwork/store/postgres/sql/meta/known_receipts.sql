-- Which of these receipts are committed.
SELECT id FROM tickwork_receipts WHERE id = ANY ($1::uuid[])

-- Stores a published event, once.
INSERT INTO tickwork_published (tenant, published_at, /*published*/)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT DO NOTHING

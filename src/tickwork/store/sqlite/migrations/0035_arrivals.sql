-- A delivery that arrived and was sent again has an `arrived_at`, its first arrival: if the resend dies, it counts as
-- delivered then.
ALTER TABLE tickwork_deliveries ADD COLUMN arrived_at INTEGER;

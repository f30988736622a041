-- Adds an amount to a row of usage.
INSERT INTO tickwork_usage (tenant, period, measure, amount) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (tenant, period, measure) DO UPDATE SET amount = amount + excluded.amount

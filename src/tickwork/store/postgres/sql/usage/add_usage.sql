-- Adds amounts to rows of usage.
INSERT INTO tickwork_usage AS known (tenant, period, measure, amount)
SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::text[], $4::bigint[])
ON CONFLICT (tenant, period, measure) DO UPDATE SET amount = known.amount + excluded.amount

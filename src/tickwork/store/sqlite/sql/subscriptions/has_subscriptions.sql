-- Whether there are subscriptions at all.
SELECT EXISTS (SELECT 1 FROM tickwork_subscriptions)

-- The span of a message's sender, if it was traced.
ALTER TABLE tickwork_messages ADD COLUMN traceparent text COLLATE "C";

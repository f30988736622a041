-- `tickwork_send`: what `send` of the Python library does, for triggers and programs in other languages. It runs with the
-- rights of its caller, in the transaction of its caller, and returns the id of the message as users see it. NULL for an
-- optional argument is its default.

-- The tables are found in their own schema, whatever the search_path of the caller is.
SELECT set_config('search_path', relnamespace::regnamespace::text || ', pg_temp', true)
FROM pg_class WHERE oid = 'tickwork_messages'::regclass;

CREATE FUNCTION tickwork_send(
    queue text,
    body jsonb,
    type text DEFAULT NULL,
    key text DEFAULT NULL,
    event_id text DEFAULT NULL,
    delay_seconds double precision DEFAULT 0,
    expires_after_seconds double precision DEFAULT NULL,
    priority integer DEFAULT 4,
    source text DEFAULT NULL,
    correlation_id text DEFAULT NULL,
    causation_id text DEFAULT NULL,
    tenant text DEFAULT 'default'
) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path FROM CURRENT
AS $tickwork_send$
#variable_conflict use_column
DECLARE
    the_tenant text := coalesce(tickwork_send.tenant, 'default');
    delay double precision := coalesce(tickwork_send.delay_seconds, 0);
    rank smallint;
    content bytea;
    size integer;
    fault text;
    quota record;
    target record;
    copied record;
    known integer;
    bucket interval;
    spent timestamptz;
    moment timestamptz;
    place_in_key bigint;
    new_id uuid;
    message_id uuid;
    -- Bytes that queues with a cap get; only the first may be refused.
    capped uuid[] := '{}';
    added bigint[] := '{}';
BEGIN
    -- What `send` checks before it asks the database.
    content := convert_to(tickwork_send.body::text, 'UTF8');
    size := octet_length(content);
    fault := CASE
        WHEN tickwork_send.queue IS NULL THEN 'queue is missing; give the name of a queue'
        WHEN content IS NULL THEN 'body is missing; an empty one is ''null''::jsonb'
        WHEN size > 128000 THEN format('body has %s bytes; at most 128000; send a reference instead', size)
        WHEN NOT delay BETWEEN 0 AND 31536000 THEN 'delay_seconds must be from 0 to 31536000'
        WHEN NOT (tickwork_send.expires_after_seconds > 0 AND tickwork_send.expires_after_seconds <= 31536000)
            THEN 'expires_after_seconds must be above 0 and at most 31536000'
        WHEN NOT tickwork_send.priority BETWEEN 0 AND 9
            THEN format('priority must be from 0 to 9, not %s', tickwork_send.priority)
        ELSE (
            SELECT format('%s must have 1 to %s characters, not %s', given.name, given.most, char_length(given.value))
            FROM (VALUES
                (1, 'key', tickwork_send.key, 120), (2, 'event_id', tickwork_send.event_id, 512),
                (3, 'type', tickwork_send.type, 512), (4, 'source', tickwork_send.source, 512),
                (5, 'correlation_id', tickwork_send.correlation_id, 512),
                (6, 'causation_id', tickwork_send.causation_id, 512)
            ) AS given (number, name, value, most)
            WHERE NOT char_length(given.value) BETWEEN 1 AND given.most
            ORDER BY given.number LIMIT 1
        )
    END;
    IF fault IS NULL AND (
        tickwork_send.queue IN ('tickwork.alerts', 'tickwork.deliveries', 'tickwork.endpoints')
        OR starts_with(tickwork_send.queue, 'tickwork.workflows.')
        OR starts_with(tickwork_send.queue, 'tickwork.entities.')
    ) THEN
        fault := format('queue %s is used by Tickwork itself; choose another queue', tickwork_send.queue);
    END IF;
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'tickwork_send: ' || fault;
    END IF;
    rank := coalesce(tickwork_send.priority, 4);

    -- The quotas of the tenant.
    SELECT t.messages_per_second, t.payload_bytes_max, t.backlog_max INTO quota
    FROM tickwork_tenants AS t WHERE t.id = the_tenant;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object',
            MESSAGE = format('tickwork_send: the tenant %s does not exist', the_tenant),
            HINT = 'Create it first, or leave the argument tenant out.';
    END IF;
    IF size > quota.payload_bytes_max THEN
        RAISE EXCEPTION USING ERRCODE = 'configuration_limit_exceeded', MESSAGE = format(
            'tickwork_send: tenant %s may send bodies of %s bytes, and this one has %s',
            the_tenant, quota.payload_bytes_max, size
        ), HINT = 'Send a reference instead, or raise its payload_bytes_max.';
    END IF;
    IF quota.backlog_max IS NOT NULL THEN
        SELECT count(*) INTO known FROM (
            SELECT FROM tickwork_messages AS m WHERE m.tenant = the_tenant LIMIT quota.backlog_max
        ) AS counted;
        IF known >= quota.backlog_max THEN
            RAISE EXCEPTION USING ERRCODE = 'configuration_limit_exceeded', MESSAGE = format(
                'tickwork_send: tenant %s may have %s messages in its queues', the_tenant, quota.backlog_max
            ), HINT = 'Wait until some are processed, or raise its backlog_max.';
        END IF;
    END IF;
    IF quota.messages_per_second IS NOT NULL THEN
        -- A token bucket that holds one second's worth. Its state is the time until which it is spent. The tenant is
        -- locked, so that concurrent sends agree.
        SELECT t.messages_per_second AS rate, t.messages_spent_until AS spent_until,
            ceil(1000000 / t.messages_per_second::numeric)::float8 * interval '1 microsecond' AS each
        INTO quota FROM tickwork_tenants AS t WHERE t.id = the_tenant FOR NO KEY UPDATE;
        moment := clock_timestamp();
        bucket := greatest(floor(quota.rate), 1) * quota.each;
        spent := CASE WHEN quota.spent_until <= moment + bucket THEN greatest(quota.spent_until, moment - bucket)
            ELSE moment - bucket END;
        IF spent + quota.each > moment THEN
            RAISE EXCEPTION USING ERRCODE = 'configuration_limit_exceeded', MESSAGE = format(
                'tickwork_send: tenant %s may create %s messages a second', the_tenant, quota.rate
            ), HINT = 'Try again later, or raise its messages_per_second.';
        END IF;
        UPDATE tickwork_tenants AS t SET messages_spent_until = spent + quota.each WHERE t.id = the_tenant;
    END IF;

    -- The queue: the tenant's own, else a shared one. Locked, so that it is not deleted while a message is being stored
    -- in it.
    SELECT q.id, q.name, q.is_capped, (q.settings ->> 'backlog_bytes_max')::bigint AS bytes_max INTO target
    FROM tickwork_queues AS q
    WHERE q.name = tickwork_send.queue AND (q.tenant = the_tenant OR q.tenant IS NULL)
    ORDER BY q.tenant NULLS LAST LIMIT 1 FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object',
            MESSAGE = format('tickwork_send: the queue %s does not exist', tickwork_send.queue),
            HINT = 'Create it first: declare it in an app and start that, or `tickwork queues create`.';
    END IF;

    -- The message, and then a copy for each queue that subscribes to its type.
    FOR copied IN
        SELECT target.id AS queue_id, target.name, target.is_capped, target.bytes_max, true AS is_own
        UNION ALL
        SELECT q.id, q.name, q.is_capped, (q.settings ->> 'backlog_bytes_max')::bigint, false
        FROM (
            SELECT subscriber.* FROM tickwork_queues AS subscriber
            WHERE subscriber.id <> target.id AND subscriber.id IN (
                SELECT s.queue_id FROM tickwork_subscriptions AS s
                WHERE (s.tenant = the_tenant OR s.tenant IS NULL) AND CASE
                    WHEN right(s.types, 1) = '*' THEN starts_with(tickwork_send.type, left(s.types, -1))
                    ELSE s.types = tickwork_send.type END
            )
            ORDER BY subscriber.id FOR KEY SHARE
        ) AS q
    LOOP
        -- Whoever frees the key waits for this transaction, and others who send to it.
        place_in_key := NULL;
        IF tickwork_send.key IS NOT NULL THEN
            INSERT INTO tickwork_keys AS k (tenant, queue_id, key, last_place)
            VALUES (the_tenant, copied.queue_id, tickwork_send.key, 1)
            ON CONFLICT (tenant, queue_id, key) DO UPDATE SET last_place = k.last_place + 1
            RETURNING last_place INTO place_in_key;
        END IF;
        -- A copy that exceeds the cap of its queue refuses nothing: it has expired when it is sent, and becomes a dead
        -- letter for this reason.
        fault := NULL;
        IF copied.is_capped THEN
            capped := capped || copied.queue_id;
            added := added || size::bigint;
            SELECT format(
                'queue %s is at its limit of %s bytes; send again later, or raise backlog_bytes_max',
                copied.name, copied.bytes_max
            ) INTO fault
            FROM tickwork_backlogs AS b WHERE b.queue_id = copied.queue_id
            HAVING NOT copied.is_own AND size + coalesce(sum(b.bytes), 0) > copied.bytes_max;
        END IF;
        moment := clock_timestamp();
        -- A UUID of version 7: it sorts by its time.
        new_id := encode(set_byte(overlay(
            uuid_send(gen_random_uuid())
            PLACING substring(int8send(floor(extract(epoch FROM moment) * 1000)::bigint) FROM 3) FROM 1 FOR 6
        ), 6, 112 + floor(random() * 16)::integer), 'hex')::uuid;
        message_id := coalesce(message_id, new_id);
        INSERT INTO tickwork_messages (
            tenant, queue_id, id, state, place, sent_at, visible_at, expires_at, priority, key, event_id, type, source,
            correlation_id, causation_id, last_error, body
        ) VALUES (
            the_tenant, copied.queue_id, new_id, CASE WHEN place_in_key > 1 THEN 'held' ELSE 'ready' END, place_in_key, moment,
            moment + make_interval(secs => delay),
            CASE WHEN fault IS NULL THEN
                moment + make_interval(secs => delay + tickwork_send.expires_after_seconds)
            ELSE moment END,
            rank, tickwork_send.key, tickwork_send.event_id, tickwork_send.type, tickwork_send.source,
            tickwork_send.correlation_id, tickwork_send.causation_id, fault, content
        );
        PERFORM pg_notify('tickwork', copied.queue_id::text);
    END LOOP;

    -- The bytes of queues with a cap, spread over stripes. Last, and in a fixed order, as everybody locks them.
    IF cardinality(capped) > 0 THEN
        WITH fitting AS (
            INSERT INTO tickwork_backlogs AS b (queue_id, stripe, bytes)
            SELECT new.queue_id, pg_current_xact_id()::text::bigint % 16, new.bytes
            FROM unnest(capped, added) AS new (queue_id, bytes)
            WHERE new.queue_id <> target.id OR new.bytes + (
                SELECT coalesce(sum(own.bytes), 0) FROM tickwork_backlogs AS own WHERE own.queue_id = target.id
            ) <= target.bytes_max
            ORDER BY new.queue_id
            ON CONFLICT (queue_id, stripe) DO UPDATE SET bytes = b.bytes + excluded.bytes
            RETURNING queue_id
        )
        SELECT count(*) INTO known FROM fitting;
        IF known < cardinality(capped) THEN
            RAISE EXCEPTION USING ERRCODE = 'configuration_limit_exceeded', MESSAGE = format(
                'tickwork_send: queue %s is at its limit of %s bytes', target.name, target.bytes_max
            ), HINT = 'Send again later, or raise its backlog_bytes_max.';
        END IF;
    END IF;
    RETURN 'msg_' || replace(message_id::text, '-', '');
END
$tickwork_send$;

CREATE TABLE batch (
    id            uuid PRIMARY KEY,
    name          text,
    namespace     text NOT NULL,
    context       jsonb,
    retry_policy  jsonb,
    definition    jsonb,
    retry_of      uuid,
    attempt       integer NOT NULL DEFAULT 0,
    retry_state   text,
    retry_count   integer NOT NULL DEFAULT 0,
    execution_id  uuid,
    next_retry_at timestamptz,
    retried_at    timestamptz,
    error_history jsonb,
    updated_at    timestamptz,
    version       integer NOT NULL DEFAULT 1,
    created_at    timestamptz NOT NULL
);
CREATE INDEX batch_created ON batch (created_at, id);
CREATE INDEX batch_unsettled ON batch (id) WHERE retry_state IN ('open', 'retrying');
CREATE INDEX batch_due ON batch (next_retry_at) WHERE next_retry_at IS NOT NULL;
CREATE INDEX batch_failed ON batch (id) WHERE error_history IS NOT NULL;

CREATE TABLE task (
    id               uuid PRIMARY KEY,
    batch_id         uuid NOT NULL,
    position         integer NOT NULL,
    key              text NOT NULL,
    name             text NOT NULL,
    kind             text NOT NULL,
    namespace        text NOT NULL,
    lane             bigint NOT NULL,
    status           text NOT NULL,
    from_status      text,
    paused           boolean NOT NULL DEFAULT false,
    parked           boolean NOT NULL DEFAULT false,
    delayed          boolean NOT NULL DEFAULT false,
    linked           boolean NOT NULL DEFAULT false,
    waits            integer NOT NULL DEFAULT 0 CHECK (waits >= 0),
    executor         text NOT NULL,
    completion       text NOT NULL,
    timeout          integer NOT NULL,
    priority         integer NOT NULL,
    payload          jsonb,
    metadata         jsonb,
    rules            jsonb NOT NULL,
    actions          jsonb NOT NULL,
    expected_count   bigint,
    success          bigint NOT NULL DEFAULT 0 CHECK (success >= 0),
    failures         bigint NOT NULL DEFAULT 0 CHECK (failures >= 0),
    dead_end_barrier boolean NOT NULL DEFAULT false,
    retry_policy     jsonb,
    attempt          integer NOT NULL DEFAULT 0,
    retry_count      integer NOT NULL DEFAULT 0,
    free_waits       integer NOT NULL DEFAULT 0,
    worker_losses    integer NOT NULL DEFAULT 0,
    last_delay_secs  double precision,
    next_retry_at    timestamptz,
    run_at           timestamptz,
    created_at       timestamptz NOT NULL,
    started_at       timestamptz,
    ended_at         timestamptz,
    last_updated     timestamptz NOT NULL,
    times_out_at     timestamptz,
    failure_reason   text,
    error_class      text,
    result           jsonb,
    locked_by        text,
    lease_until      timestamptz,
    ended_by         uuid,
    version          integer NOT NULL DEFAULT 1
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX task_batch ON task (batch_id, position);
CREATE INDEX task_status_kind ON task (status, kind);
CREATE INDEX task_claim ON task (lane, priority DESC, created_at, position)
    WHERE status = 'pending' AND NOT paused AND NOT delayed;
CREATE INDEX task_delayed ON task (run_at) WHERE status = 'pending' AND delayed;
CREATE INDEX task_retry ON task (next_retry_at) WHERE status = 'retry_pending' AND NOT paused;
CREATE INDEX task_lease ON task (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX task_timeout ON task (times_out_at) WHERE times_out_at IS NOT NULL;
CREATE INDEX task_retried ON task (id) WHERE retry_policy IS NOT NULL AND (attempt > 0 OR status = 'failure');

CREATE TABLE link (
    parent_id uuid NOT NULL,
    child_id  uuid NOT NULL,
    condition text NOT NULL,
    PRIMARY KEY (parent_id, child_id)
);
CREATE INDEX link_child ON link (child_id);

CREATE TABLE task_attempt (
    task_id       uuid NOT NULL,
    attempt       integer NOT NULL,
    instance      text,
    started_at    timestamptz,
    ended_at      timestamptz NOT NULL,
    outcome       text NOT NULL,
    trigger       text,
    error_class   text,
    http_status   integer,
    code          text,
    message       text,
    delay_secs    double precision,
    delay_source  text,
    charged       boolean,
    next_retry_at timestamptz,
    PRIMARY KEY (task_id, attempt)
);

CREATE TABLE event (
    seq         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id     uuid NOT NULL,
    batch_id    uuid NOT NULL,
    at          timestamptz NOT NULL,
    from_status text,
    to_status   text NOT NULL,
    attempt     integer NOT NULL,
    reason      text,
    instance    text
);
CREATE INDEX event_task ON event (task_id);

CREATE TABLE webhook_execution (
    id              uuid PRIMARY KEY,
    task_id         uuid NOT NULL,
    trigger         text NOT NULL,
    condition       text NOT NULL,
    action_index    integer NOT NULL,
    attempt         integer NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL UNIQUE,
    status          text NOT NULL,
    attempts        integer NOT NULL DEFAULT 0,
    params          jsonb,
    next_send_at    timestamptz,
    last_status     integer,
    last_error      text,
    sender          text,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL
);
CREATE INDEX webhook_execution_due ON webhook_execution (next_send_at) WHERE next_send_at IS NOT NULL;

CREATE TABLE submission (
    key          text PRIMARY KEY,
    body_hash    text NOT NULL,
    status       integer NOT NULL,
    batch_id     text NOT NULL,
    answer       bytea NOT NULL,
    created_at   timestamptz NOT NULL
);
CREATE INDEX submission_created ON submission (created_at);

CREATE TABLE pause (
    scope      text NOT NULL,
    name       text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (scope, name)
);

CREATE TABLE lock (
    name text PRIMARY KEY
);
INSERT INTO lock (name) VALUES ('rules'), ('dedupe'), ('retention'), ('sweep');

-- Every task and batch that has a policy and has failed, with its retries. What is dear to compute stands in the outer
-- query, where a page of a listing computes it for the rows of the page only.
CREATE VIEW retry_schedules AS
SELECT
    subject.id,
    subject.retry_type,
    subject.id AS target_id,
    subject.execution_id,
    subject.node_id,
    subject.policy ->> 'strategy' AS retry_strategy,
    CAST(subject.policy ->> 'max_retries' AS integer) AS max_attempts,
    subject.current_attempt,
    CAST(subject.policy ->> 'initial_delay_secs' AS double precision) AS initial_delay_seconds,
    CAST(subject.policy ->> 'delay_secs' AS double precision) AS delay_seconds,
    CAST(subject.policy ->> 'backoff_multiplier' AS double precision) AS multiplier,
    CAST(subject.policy ->> 'max_delay_secs' AS double precision) AS max_delay_seconds,
    CASE WHEN jsonb_typeof(subject.policy -> 'schedule') = 'array' THEN jsonb_build_object('attempts', (
        SELECT jsonb_agg(jsonb_build_object('attempt', entry.number, 'delay_secs', entry.delay) ORDER BY entry.number)
        FROM jsonb_array_elements(subject.policy -> 'schedule') WITH ORDINALITY AS entry(delay, number)
    )) END AS custom_schedule,
    subject.scheduled_at,
    subject.last_retried_at,
    -- Longer than that no calendar reaches: the policy never expires.
    least(
        CAST(subject.policy ->> 'expires_at' AS timestamptz),
        CASE WHEN CAST(subject.policy ->> 'expires_after_secs' AS double precision) < 2e11
            THEN subject.created_at
                + CAST(subject.policy ->> 'expires_after_secs' AS double precision) * interval '1 second' END
    ) AS expires_at,
    subject.status,
    subject.locked_by,
    subject.locked_at,
    CASE WHEN subject.retry_type = 'execution' THEN jsonb_build_object('context', subject.context)
        ELSE jsonb_build_object('payload', subject.payload, 'metadata', subject.metadata) END AS retry_context,
    CASE WHEN subject.retry_type = 'execution' THEN subject.error_history ELSE (
        SELECT jsonb_agg(jsonb_build_object(
            'attempt', a.attempt,
            'timestamp', to_char(a.ended_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            'error', a.message,
            'error_class', a.error_class,
            'http_status', a.http_status,
            'code', a.code
        ) ORDER BY a.attempt)
        FROM task_attempt a WHERE a.task_id = subject.uuid AND a.outcome IN ('failure', 'lost')
    ) END AS error_history,
    subject.created_at,
    subject.updated_at,
    subject.version
FROM (
    SELECT
        task.id AS uuid,
        CAST(task.id AS text) AS id,
        'node_execution' AS retry_type,
        CAST(task.batch_id AS text) AS execution_id,
        task.key AS node_id,
        task.retry_policy AS policy,
        task.retry_count AS current_attempt,
        -- A moment that was dropped by hand is no longer ahead.
        coalesce(task.next_retry_at, least((
            SELECT a.next_retry_at FROM task_attempt a
            WHERE a.task_id = task.id AND a.next_retry_at IS NOT NULL ORDER BY a.attempt DESC LIMIT 1
        ), task.last_updated)) AS scheduled_at,
        CASE WHEN task.status IN ('claimed', 'running') AND task.attempt > 0 THEN task.started_at ELSE (
            SELECT max(a.started_at) FROM task_attempt a WHERE a.task_id = task.id AND a.attempt > 0
        ) END AS last_retried_at,
        CASE
            WHEN task.status = 'success' THEN 'completed'
            WHEN task.status = 'failure' THEN 'failed'
            WHEN task.status IN ('canceled', 'skipped') THEN 'cancelled'
            WHEN task.paused OR task.status = 'waiting' THEN 'pending'
            WHEN task.status IN ('claimed', 'running') THEN 'retrying'
            ELSE 'scheduled'
        END AS status,
        CASE WHEN task.status IN ('claimed', 'running') THEN task.locked_by END AS locked_by,
        CASE WHEN task.status IN ('claimed', 'running') THEN task.started_at END AS locked_at,
        task.payload,
        task.metadata,
        CAST(NULL AS jsonb) AS context,
        CAST(NULL AS jsonb) AS error_history,
        task.created_at,
        task.last_updated AS updated_at,
        task.version
    FROM task
    WHERE task.retry_policy IS NOT NULL AND (task.attempt > 0 OR task.status = 'failure')
        AND task.retry_policy ->> 'enabled' = 'true'
        AND EXISTS (SELECT 1 FROM task_attempt a WHERE a.task_id = task.id AND a.outcome IN ('failure', 'lost'))
    UNION ALL
    SELECT
        batch.id,
        CAST(batch.id AS text),
        'execution',
        CAST(batch.id AS text),
        NULL,
        batch.retry_policy,
        batch.retry_count,
        coalesce(batch.next_retry_at, batch.retried_at, batch.updated_at, batch.created_at),
        batch.retried_at,
        -- Retried in place before it was ever repeated: it runs again.
        CASE WHEN batch.retry_state = 'open' THEN 'retrying' ELSE batch.retry_state END,
        NULL,
        NULL,
        NULL,
        NULL,
        batch.context,
        batch.error_history,
        batch.created_at,
        coalesce(batch.updated_at, batch.created_at),
        batch.version
    FROM batch
    WHERE batch.error_history IS NOT NULL AND batch.retry_of IS NULL AND batch.retry_policy ->> 'enabled' = 'true'
) AS subject;

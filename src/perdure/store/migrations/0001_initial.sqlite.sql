CREATE TABLE batch (
    id            TEXT PRIMARY KEY,
    name          TEXT,
    namespace     TEXT NOT NULL,
    context       TEXT,
    retry_policy  TEXT,
    definition    TEXT,
    retry_of      TEXT,
    attempt       INTEGER NOT NULL DEFAULT 0,
    retry_state   TEXT,
    retry_count   INTEGER NOT NULL DEFAULT 0,
    execution_id  TEXT,
    next_retry_at INTEGER,
    retried_at    INTEGER,
    error_history TEXT,
    updated_at    INTEGER,
    version       INTEGER NOT NULL DEFAULT 1,
    created_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX batch_created ON batch (created_at, id);
CREATE INDEX batch_unsettled ON batch (id) WHERE retry_state IN ('open', 'retrying');
CREATE INDEX batch_due ON batch (next_retry_at) WHERE next_retry_at IS NOT NULL;
CREATE INDEX batch_failed ON batch (id) WHERE error_history IS NOT NULL;

CREATE TABLE task (
    id               TEXT PRIMARY KEY,
    batch_id         TEXT NOT NULL,
    position         INTEGER NOT NULL,
    key              TEXT NOT NULL,
    name             TEXT NOT NULL,
    kind             TEXT NOT NULL,
    namespace        TEXT NOT NULL,
    lane             INTEGER NOT NULL,
    status           TEXT NOT NULL,
    from_status      TEXT,
    paused           INTEGER NOT NULL DEFAULT 0,
    parked           INTEGER NOT NULL DEFAULT 0,
    delayed          INTEGER NOT NULL DEFAULT 0,
    linked           INTEGER NOT NULL DEFAULT 0,
    waits            INTEGER NOT NULL DEFAULT 0 CHECK (waits >= 0),
    executor         TEXT NOT NULL,
    completion       TEXT NOT NULL,
    timeout          INTEGER NOT NULL,
    priority         INTEGER NOT NULL,
    payload          TEXT,
    metadata         TEXT,
    rules            TEXT NOT NULL,
    actions          TEXT NOT NULL,
    expected_count   INTEGER,
    success          INTEGER NOT NULL DEFAULT 0 CHECK (success >= 0),
    failures         INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
    dead_end_barrier INTEGER NOT NULL DEFAULT 0,
    retry_policy     TEXT,
    attempt          INTEGER NOT NULL DEFAULT 0,
    retry_count      INTEGER NOT NULL DEFAULT 0,
    free_waits       INTEGER NOT NULL DEFAULT 0,
    worker_losses    INTEGER NOT NULL DEFAULT 0,
    last_delay_secs  REAL,
    next_retry_at    INTEGER,
    run_at           INTEGER,
    created_at       INTEGER NOT NULL,
    started_at       INTEGER,
    ended_at         INTEGER,
    last_updated     INTEGER NOT NULL,
    times_out_at     INTEGER,
    failure_reason   TEXT,
    error_class      TEXT,
    result           TEXT,
    locked_by        TEXT,
    lease_until      INTEGER,
    ended_by         TEXT,
    version          INTEGER NOT NULL DEFAULT 1
) STRICT;
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
    parent_id TEXT NOT NULL,
    child_id  TEXT NOT NULL,
    condition TEXT NOT NULL,
    PRIMARY KEY (parent_id, child_id)
) STRICT;
CREATE INDEX link_child ON link (child_id);

CREATE TABLE task_attempt (
    task_id       TEXT NOT NULL,
    attempt       INTEGER NOT NULL,
    instance      TEXT,
    started_at    INTEGER,
    ended_at      INTEGER NOT NULL,
    outcome       TEXT NOT NULL,
    trigger       TEXT,
    error_class   TEXT,
    http_status   INTEGER,
    code          TEXT,
    message       TEXT,
    delay_secs    REAL,
    delay_source  TEXT,
    charged       INTEGER,
    next_retry_at INTEGER,
    PRIMARY KEY (task_id, attempt)
) STRICT;

CREATE TABLE event (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id     TEXT NOT NULL,
    batch_id    TEXT NOT NULL,
    at          INTEGER NOT NULL,
    from_status TEXT,
    to_status   TEXT NOT NULL,
    attempt     INTEGER NOT NULL,
    reason      TEXT,
    instance    TEXT
) STRICT;
CREATE INDEX event_task ON event (task_id);

CREATE TABLE webhook_execution (
    id              TEXT PRIMARY KEY,
    task_id         TEXT NOT NULL,
    trigger         TEXT NOT NULL,
    condition       TEXT NOT NULL,
    action_index    INTEGER NOT NULL,
    attempt         INTEGER NOT NULL,
    idempotency_key TEXT NOT NULL UNIQUE,
    status          TEXT NOT NULL,
    attempts        INTEGER NOT NULL DEFAULT 0,
    params          TEXT,
    next_send_at    INTEGER,
    last_status     INTEGER,
    last_error      TEXT,
    sender          TEXT,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX webhook_execution_due ON webhook_execution (next_send_at) WHERE next_send_at IS NOT NULL;

CREATE TABLE submission (
    key          TEXT PRIMARY KEY,
    body_hash    TEXT NOT NULL,
    status       INTEGER NOT NULL,
    batch_id     TEXT NOT NULL,
    answer       BLOB NOT NULL,
    created_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX submission_created ON submission (created_at);

CREATE TABLE pause (
    scope      TEXT NOT NULL,
    name       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (scope, name)
) STRICT;

CREATE TABLE lock (
    name TEXT PRIMARY KEY
) STRICT;
INSERT INTO lock (name) VALUES ('rules'), ('dedupe'), ('retention'), ('sweep');

-- Every task and batch that has a policy and has failed, with its retries. Moments are UTC as text, for people to read
-- and to compare with datetime('now').
CREATE VIEW retry_schedules AS
SELECT
    subject.id,
    subject.retry_type,
    subject.id AS target_id,
    subject.execution_id,
    subject.node_id,
    subject.policy ->> 'strategy' AS retry_strategy,
    subject.policy ->> 'max_retries' AS max_attempts,
    subject.current_attempt,
    CAST(subject.policy ->> 'initial_delay_secs' AS REAL) AS initial_delay_seconds,
    CAST(subject.policy ->> 'delay_secs' AS REAL) AS delay_seconds,
    CAST(subject.policy ->> 'backoff_multiplier' AS REAL) AS multiplier,
    CAST(subject.policy ->> 'max_delay_secs' AS REAL) AS max_delay_seconds,
    CASE WHEN json_type(subject.policy, '$.schedule') = 'array' THEN json_object('attempts', (
        SELECT json_group_array(json_object('attempt', entry.key + 1, 'delay_secs', entry.value))
        FROM json_each(subject.policy, '$.schedule') AS entry
    )) END AS custom_schedule,
    strftime('%Y-%m-%d %H:%M:%f', subject.scheduled_at / 1000 / 1000.0, 'unixepoch') AS scheduled_at,
    strftime('%Y-%m-%d %H:%M:%f', subject.last_retried_at / 1000 / 1000.0, 'unixepoch') AS last_retried_at,
    -- Longer than that no calendar reaches: the policy never expires. The last moment stands for none at all.
    nullif(min(
        coalesce(strftime('%Y-%m-%d %H:%M:%f', subject.policy ->> 'expires_at'), '9999-12-31 23:59:59.999'),
        coalesce(
            CASE WHEN subject.policy ->> 'expires_after_secs' < 2e11 THEN strftime('%Y-%m-%d %H:%M:%f',
                subject.created_at / 1000 / 1000.0 + (subject.policy ->> 'expires_after_secs'), 'unixepoch') END,
            '9999-12-31 23:59:59.999')
    ), '9999-12-31 23:59:59.999') AS expires_at,
    subject.status,
    subject.locked_by,
    strftime('%Y-%m-%d %H:%M:%f', subject.locked_at / 1000 / 1000.0, 'unixepoch') AS locked_at,
    CASE WHEN subject.retry_type = 'execution' THEN json_object('context', json(subject.context))
        ELSE json_object('payload', json(subject.payload), 'metadata', json(subject.metadata)) END AS retry_context,
    CASE WHEN subject.retry_type = 'execution' THEN subject.error_history ELSE (
        SELECT json_group_array(json_object(
            'attempt', a.attempt,
            'timestamp', strftime('%Y-%m-%dT%H:%M:%S', a.ended_at / 1000000, 'unixepoch')
                || printf('.%06dZ', a.ended_at % 1000000),
            'error', a.message,
            'error_class', a.error_class,
            'http_status', a.http_status,
            'code', a.code
        ))
        FROM (
            SELECT * FROM task_attempt failed
            WHERE failed.task_id = subject.id AND failed.outcome IN ('failure', 'lost') ORDER BY failed.attempt
        ) AS a
    ) END AS error_history,
    strftime('%Y-%m-%d %H:%M:%f', subject.created_at / 1000 / 1000.0, 'unixepoch') AS created_at,
    strftime('%Y-%m-%d %H:%M:%f', subject.updated_at / 1000 / 1000.0, 'unixepoch') AS updated_at,
    subject.version
FROM (
    SELECT
        task.id,
        'node_execution' AS retry_type,
        task.batch_id AS execution_id,
        task.key AS node_id,
        task.retry_policy AS policy,
        task.retry_count AS current_attempt,
        -- A moment that was dropped by hand is no longer ahead.
        coalesce(task.next_retry_at, min(coalesce((
            SELECT a.next_retry_at FROM task_attempt a
            WHERE a.task_id = task.id AND a.next_retry_at IS NOT NULL ORDER BY a.attempt DESC LIMIT 1
        ), task.last_updated), task.last_updated)) AS scheduled_at,
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
        NULL AS context,
        NULL AS error_history,
        task.created_at,
        task.last_updated AS updated_at,
        task.version
    FROM task
    WHERE task.retry_policy IS NOT NULL AND (task.attempt > 0 OR task.status = 'failure')
        AND task.retry_policy ->> 'enabled'
        AND EXISTS (SELECT 1 FROM task_attempt a WHERE a.task_id = task.id AND a.outcome IN ('failure', 'lost'))
    UNION ALL
    SELECT
        batch.id,
        'execution',
        batch.id,
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
    WHERE batch.error_history IS NOT NULL AND batch.retry_of IS NULL AND batch.retry_policy ->> 'enabled'
) AS subject;

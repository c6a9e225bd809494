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

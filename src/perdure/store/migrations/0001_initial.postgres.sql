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

-- name: lock_batches @postgres
SELECT b.id FROM batch b
WHERE b.id IN (SELECT t.batch_id FROM {ids} JOIN task t ON t.id = input.id WHERE t.linked)
ORDER BY b.id FOR NO KEY UPDATE

-- name: lock_batches @sqlite

-- name: lock_tasks
SELECT {task}, task.free_waits, task.worker_losses, task.last_delay_secs, task.lease_until, task.times_out_at
FROM task WHERE task.id IN (SELECT id FROM {ids}) ORDER BY task.id {lock}

-- name: lock_failing
SELECT task.id, task.batch_id, task.name, task.kind, task.status, task.attempt, task.retry_count, task.free_waits,
    task.worker_losses, task.last_delay_secs, task.retry_policy, task.paused, task.actions, task.created_at,
    task.started_at, task.locked_by, task.failure_reason
FROM task WHERE task.id IN (SELECT id FROM {ids}) ORDER BY task.id {lock}

-- name: start
WITH input AS (SELECT id, attempt FROM {rows(id uuid, attempt int)})
UPDATE task SET from_status = status, status = 'running', last_updated = :now, version = version + 1,
    lease_until = CASE WHEN executor = 'worker' THEN lease_until END,
    times_out_at = CASE WHEN NOT paused THEN {after(:now, timeout)} END
FROM input
WHERE task.id = input.id AND task.attempt = input.attempt AND {guard(started)}
RETURNING {moved}

-- name: succeed
WITH input AS (SELECT id, attempt, result FROM {rows(id uuid, attempt int, result jsonb)})
UPDATE task SET {ended}, status = 'success', result = input.result, failure_reason = NULL, error_class = NULL
FROM input
WHERE task.id = input.id AND task.attempt = coalesce(input.attempt, task.attempt) AND {guard(succeeded)}
RETURNING {moved}

-- name: fail
WITH input AS (SELECT id, attempt, reason, error_class
    FROM {rows(id uuid, attempt int, reason text, error_class text)})
UPDATE task SET {ended}, status = 'failure', failure_reason = input.reason, error_class = input.error_class
FROM input
WHERE task.id = input.id AND task.attempt = input.attempt AND {guard(failed)}
RETURNING {moved}

-- name: schedule_retry
WITH input AS (SELECT id, attempt, reason, error_class, next_retry_at, delay_secs, charged, freed, lost FROM
    {rows(id uuid, attempt int, reason text, error_class text, next_retry_at timestamptz, delay_secs float8, charged int, freed int, lost int)})
UPDATE task SET from_status = status, status = 'retry_pending', attempt = task.attempt + 1,
    retry_count = retry_count + input.charged, free_waits = free_waits + input.freed,
    worker_losses = worker_losses + input.lost, failure_reason = input.reason, error_class = input.error_class,
    next_retry_at = input.next_retry_at, last_delay_secs = input.delay_secs, last_updated = :now, locked_by = NULL,
    lease_until = NULL, times_out_at = NULL, version = version + 1
FROM input
WHERE task.id = input.id AND task.attempt = input.attempt AND {guard(retry_scheduled)}
RETURNING {moved}

-- name: due_retries
SELECT t.id, t.next_retry_at FROM task t {by(task_retry)}
WHERE t.status = 'retry_pending' AND NOT t.paused AND t.next_retry_at <= :now
ORDER BY t.next_retry_at LIMIT :most {lock skip}

-- name: release_retries
WITH input AS (SELECT id FROM {ids})
UPDATE task SET from_status = status, status = 'pending', started_at = NULL, ended_at = NULL, failure_reason = NULL,
    next_retry_at = NULL, locked_by = NULL, last_updated = :now, version = version + 1
FROM input
WHERE task.id = input.id AND {guard(retry_due)} AND NOT task.paused AND coalesce(task.next_retry_at <= :now, FALSE)
RETURNING {moved}

-- name: cancel
WITH input AS (SELECT id, reason, ended_by FROM {rows(id uuid, reason text, ended_by uuid)})
UPDATE task SET {ended}, status = 'canceled', failure_reason = input.reason, ended_by = input.ended_by
FROM input
WHERE task.id = input.id AND {guard(canceled)}
RETURNING {task}

-- name: batch_live_tasks
SELECT task.id, task.status, task.paused FROM task
WHERE task.batch_id = :batch_id AND {guard(live)} ORDER BY task.id {lock}

-- name: batch_ended_count
SELECT count(*) AS ended FROM task WHERE batch_id = :batch_id AND status NOT IN {live}

-- name: lock_batch @postgres
SELECT id FROM batch WHERE id = :batch_id FOR NO KEY UPDATE

-- name: lock_batch @sqlite
SELECT id FROM batch WHERE id = :batch_id

-- name: edit
WITH input AS (SELECT id, metadata, lane, priority, expected_count, success, failures
    FROM {rows(id uuid, metadata jsonb, lane bigint, priority int, expected_count bigint, success bigint, failures bigint)})
UPDATE task SET metadata = input.metadata, lane = input.lane, priority = input.priority,
    expected_count = input.expected_count, success = task.success + input.success,
    failures = task.failures + input.failures, last_updated = :now, version = version + 1,
    times_out_at = CASE WHEN times_out_at IS NOT NULL THEN {after(:now, timeout)} END
FROM input
WHERE task.id = input.id AND {guard(live)}
RETURNING {task}

-- name: replace_actions
WITH input AS (SELECT id, attempt, actions FROM {rows(id uuid, attempt int, actions jsonb)})
UPDATE task SET actions = input.actions
FROM input
WHERE task.id = input.id AND task.attempt = input.attempt AND {guard(live)}

-- name: change_rules
WITH input AS (SELECT id, rules, lane FROM {rows(id uuid, rules jsonb, lane bigint)})
UPDATE task SET rules = input.rules, lane = input.lane, last_updated = :now, version = version + 1
FROM input
WHERE task.id = input.id AND {guard(live)}
RETURNING task.id

-- name: lock_batch_kind
SELECT {task} FROM task
WHERE task.batch_id = :batch_id AND task.kind = :kind AND {guard(live)} ORDER BY task.id {lock}

-- name: pause
WITH input AS (SELECT id FROM {ids})
UPDATE task SET paused = TRUE, times_out_at = NULL, version = version + 1
FROM input
WHERE task.id = input.id AND {guard(live)} AND NOT task.paused
RETURNING {task}

-- name: resume
WITH input AS (SELECT id FROM {ids})
UPDATE task SET paused = FALSE, last_updated = :now, version = version + 1,
    times_out_at = CASE WHEN status = 'running' THEN {after(:now, timeout)} END
FROM input
WHERE task.id = input.id AND {guard(live)} AND coalesce(task.paused, FALSE) AND NOT task.parked
RETURNING {task}

-- name: count
WITH input AS (SELECT id, success, failures FROM {rows(id uuid, success bigint, failures bigint)})
UPDATE task SET success = task.success + input.success, failures = task.failures + input.failures,
    last_updated = :now,
    times_out_at = CASE WHEN times_out_at IS NOT NULL THEN {after(:now, timeout)} END
FROM input
WHERE task.id = input.id

-- name: lock_rows @postgres
SELECT t.id FROM task t WHERE t.id IN (SELECT id FROM {ids}) ORDER BY t.id FOR NO KEY UPDATE

-- name: lock_rows @sqlite

-- name: timed_out
SELECT {task}, task.free_waits, task.worker_losses, task.last_delay_secs, task.lease_until, task.times_out_at FROM task
WHERE task.times_out_at IS NOT NULL AND task.times_out_at <= :now
ORDER BY task.times_out_at LIMIT :most

-- name: due_tasks
SELECT t.id FROM task t {by(task_delayed)} WHERE t.status = 'pending' AND t.delayed AND t.run_at <= :now
ORDER BY t.run_at LIMIT :most {lock skip}

-- name: release_delayed
WITH input AS (SELECT id FROM {ids})
UPDATE task SET delayed = FALSE, last_updated = :now, version = version + 1
FROM input
WHERE task.id = input.id AND {guard(claimed)} AND coalesce(task.delayed, FALSE)
RETURNING task.id, task.run_at

-- name: next_due
SELECT min(due_at) AS due_at FROM (
    SELECT min(run_at) AS due_at FROM task {by(task_delayed)} WHERE status = 'pending' AND delayed
    UNION ALL
    SELECT min(next_retry_at) FROM task {by(task_retry)} WHERE status = 'retry_pending' AND NOT paused
) AS moments

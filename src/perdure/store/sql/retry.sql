-- name: park
WITH input AS (SELECT id, attempt, reason, error_class
    FROM {rows(id uuid, attempt int, reason text, error_class text)})
UPDATE task SET from_status = status, status = 'retry_pending', paused = TRUE, parked = TRUE, next_retry_at = NULL,
    failure_reason = input.reason, error_class = input.error_class, last_updated = :now, locked_by = NULL,
    lease_until = NULL, times_out_at = NULL, version = version + 1
FROM input
WHERE task.id = input.id AND task.attempt = input.attempt AND {guard(retry_scheduled)}
RETURNING {moved}

-- name: drop_wait
WITH input AS (SELECT id FROM {ids})
UPDATE task SET from_status = status, status = 'pending', started_at = NULL, ended_at = NULL, failure_reason = NULL,
    next_retry_at = NULL, paused = FALSE, last_updated = :now, version = version + 1
FROM input
WHERE task.id = input.id AND {guard(retry_due)} AND NOT task.parked
RETURNING {moved}

-- name: ended_in_wake
WITH RECURSIVE wake(id) AS (
    SELECT id FROM {ids}
    UNION
    SELECT task.id FROM wake
    -- Without a condition of its own each half is looked up by index; with one PostgreSQL would read all links.
    JOIN (
        SELECT parent_id AS near, child_id AS id, condition, 'failure' AS outcome FROM link
        UNION ALL
        SELECT child_id, parent_id, condition, 'canceled' FROM link
    ) AS neighbour ON neighbour.near = wake.id
    JOIN task ON task.id = neighbour.id AND task.status = neighbour.outcome AND task.ended_by IS NOT NULL
    WHERE neighbour.condition = 'on_success' OR (neighbour.condition = 'always' AND neighbour.outcome = 'canceled')
)
SELECT task.id, task.status FROM wake JOIN task ON task.id = wake.id

-- name: parents_of
SELECT link.child_id, link.parent_id, link.condition, parent.status
FROM {ids} JOIN link ON link.child_id = input.id JOIN task parent ON parent.id = link.parent_id

-- name: restore
WITH input AS (SELECT id, waits, held FROM {rows(id uuid, waits int, held boolean)})
UPDATE task SET from_status = status, status = CASE WHEN input.waits = 0 THEN 'pending' ELSE 'waiting' END,
    waits = input.waits, attempt = attempt + 1, retry_count = 0, free_waits = 0, worker_losses = 0,
    last_delay_secs = NULL, next_retry_at = NULL, started_at = NULL, ended_at = NULL, failure_reason = NULL,
    error_class = NULL, result = NULL, ended_by = NULL, locked_by = NULL, lease_until = NULL, times_out_at = NULL,
    paused = FALSE, parked = FALSE, delayed = input.held AND coalesce(run_at > :now, FALSE), last_updated = :now,
    version = version + 1
FROM input
WHERE task.id = input.id AND {guard(retried_by_hand)}
RETURNING {moved}

-- name: note_retried_by_hand
WITH input AS (SELECT id, attempt FROM {rows(id uuid, attempt int)})
UPDATE task_attempt SET delay_secs = NULL, delay_source = 'manual', charged = coalesce(charged, FALSE),
    next_retry_at = :now
FROM input
WHERE task_attempt.task_id = input.id AND task_attempt.attempt = input.attempt

-- name: waiting_children
SELECT DISTINCT task.id FROM {ids} JOIN link ON link.parent_id = input.id
JOIN task ON task.id = link.child_id AND {guard(released)}

-- name: revise
WITH input AS (SELECT id, payload, metadata, timeout, actions, retry_policy, lane, destination FROM
    {rows(id uuid, payload jsonb, metadata jsonb, timeout int, actions jsonb, retry_policy jsonb, lane bigint, destination text)})
UPDATE task SET payload = input.payload, metadata = input.metadata, timeout = input.timeout, actions = input.actions,
    retry_policy = input.retry_policy, lane = input.lane, destination = input.destination
FROM input
WHERE task.id = input.id AND {guard(retried_by_hand)}

-- name: batch_failures
SELECT task.id FROM task
WHERE task.batch_id = :batch_id AND ((task.status = 'failure' AND task.ended_by IS NULL) OR task.parked)
ORDER BY task.id

-- name: trim_attempts
DELETE FROM task_attempt WHERE (task_id, attempt) IN (
    SELECT a.task_id, a.attempt FROM {rows(task_id uuid, newest_dropped int)}
    JOIN task_attempt a ON a.task_id = input.task_id AND a.attempt > 0 AND a.attempt <= input.newest_dropped
)

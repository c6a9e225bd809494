-- name: ended_executions
SELECT b.id, b.execution_id, b.retry_policy, b.retry_count, b.created_at, b.error_history, b.version
FROM batch b {by(batch_unsettled)}
WHERE b.retry_state IN ('open', 'retrying') AND b.id > :after
    AND NOT EXISTS (SELECT 1 FROM task WHERE task.batch_id = b.execution_id AND {guard(live)})
ORDER BY b.id LIMIT :most

-- name: execution_failures
SELECT input.id, t.key, t.name, t.status, t.error_class, t.failure_reason, t.ended_at, a.trigger, a.http_status, a.code
FROM {rows(id uuid, execution_id uuid)}
JOIN task t ON t.batch_id = input.execution_id AND t.status IN ('failure', 'canceled') AND t.ended_by IS NULL
LEFT JOIN task_attempt a ON a.task_id = t.id AND a.attempt = t.attempt
ORDER BY t.ended_at, t.position

-- name: settle_executions
WITH input AS (SELECT id, version, retry_state, next_retry_at, error_history FROM
    {rows(id uuid, version int, retry_state text, next_retry_at timestamptz, error_history jsonb)})
UPDATE batch SET retry_state = input.retry_state, next_retry_at = input.next_retry_at,
    error_history = input.error_history, updated_at = :now, version = batch.version + 1
FROM input
WHERE batch.id = input.id AND batch.version = input.version AND batch.retry_state IN ('open', 'retrying')
    AND NOT EXISTS (SELECT 1 FROM task WHERE task.batch_id = batch.execution_id AND {guard(live)})
RETURNING batch.id

-- name: due_executions
SELECT b.id, b.name, b.namespace, b.context, b.definition, b.retry_count FROM batch b
WHERE b.next_retry_at IS NOT NULL AND b.next_retry_at <= :now ORDER BY b.next_retry_at LIMIT :most

-- name: launch_executions
WITH input AS (SELECT id, execution_id FROM {rows(id uuid, execution_id uuid)})
UPDATE batch SET retry_state = 'retrying', execution_id = input.execution_id, retry_count = retry_count + 1,
    next_retry_at = NULL, retried_at = :now, updated_at = :now, version = version + 1
FROM input
WHERE batch.id = input.id AND batch.retry_state = 'scheduled' AND batch.next_retry_at <= :now
RETURNING batch.id, batch.execution_id, batch.retry_count

-- name: fail_executions
UPDATE batch SET retry_state = 'failed', next_retry_at = NULL, updated_at = :now, version = version + 1
WHERE id IN (SELECT id FROM {ids}) AND retry_state = 'scheduled'

-- name: cancel_executions
UPDATE batch SET retry_state = 'cancelled', next_retry_at = NULL, updated_at = :now, version = version + 1
WHERE (id = :batch_id OR id = (SELECT retry_of FROM batch WHERE id = :batch_id))
    AND retry_state IN ('open', 'scheduled', 'retrying')

-- name: reopen_executions
UPDATE batch SET retry_state = CASE WHEN retry_count = 0 THEN 'open' ELSE 'retrying' END, next_retry_at = NULL,
    updated_at = :now, version = version + 1
WHERE retry_state IS NOT NULL AND id IN (
    SELECT coalesce(b.retry_of, b.id) FROM {ids} JOIN batch b ON b.id = input.id
    JOIN batch first ON first.id = coalesce(b.retry_of, b.id) AND first.execution_id = b.id)

-- name: next_execution
SELECT min(next_retry_at) AS due_at FROM batch WHERE next_retry_at IS NOT NULL

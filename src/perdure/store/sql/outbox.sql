-- name: queue_deliveries
INSERT INTO webhook_execution
    (id, task_id, trigger, condition, action_index, attempt, idempotency_key, status, attempts, params, destination,
     next_send_at, created_at, updated_at)
SELECT input.id, input.task_id, input.trigger, input.condition, input.action_index, input.attempt, input.key,
    'pending', 0, input.params, input.destination, :now, :now, :now
FROM {rows(id uuid, task_id uuid, trigger text, condition text, action_index int, attempt int, key text, params jsonb, destination text)}
WHERE true
ON CONFLICT (idempotency_key) DO NOTHING
RETURNING idempotency_key

-- name: due_deliveries @postgres
{with whom}, due AS (
    SELECT head.id FROM whom
    LEFT JOIN {rows(destination text, room int)} ON input.destination = whom.destination
    CROSS JOIN LATERAL (
        SELECT w.id, w.next_send_at FROM webhook_execution w
        WHERE w.destination = whom.destination AND w.next_send_at IS NOT NULL AND w.next_send_at <= :now
        ORDER BY w.destination, w.next_send_at LIMIT coalesce(input.room, :places)
    ) AS head
    WHERE whom.destination IS NOT NULL
    ORDER BY head.next_send_at LIMIT :most
)
SELECT w.id FROM webhook_execution w WHERE w.id IN (SELECT id FROM due) ORDER BY w.id {lock skip}

-- name: due_deliveries @sqlite
{with whom}
SELECT w.id FROM whom
LEFT JOIN {rows(destination text, room int)} ON input.destination = whom.destination
CROSS JOIN json_each((
    SELECT json_group_array(id) FROM (
        SELECT w.id FROM webhook_execution w {by(webhook_execution_due)}
        WHERE w.destination = whom.destination AND w.next_send_at IS NOT NULL AND w.next_send_at <= :now
        ORDER BY w.destination, w.next_send_at LIMIT :most
    )
)) AS head ON head.key < coalesce(input.room, :places)
CROSS JOIN webhook_execution w ON w.id = head.value
WHERE whom.destination IS NOT NULL
ORDER BY w.next_send_at LIMIT :most

-- name: take_deliveries
WITH input AS (SELECT id FROM {ids})
UPDATE webhook_execution SET status = 'pending', attempts = attempts + 1, next_send_at = :stale, sender = :instance,
    updated_at = :now
FROM input
WHERE webhook_execution.id = input.id AND coalesce(webhook_execution.next_send_at <= :now, FALSE)
RETURNING webhook_execution.id, webhook_execution.task_id, webhook_execution.trigger,
    webhook_execution.condition, webhook_execution.attempt, webhook_execution.action_index,
    webhook_execution.idempotency_key, webhook_execution.destination, webhook_execution.attempts,
    webhook_execution.params

-- name: settle_deliveries
WITH input AS (SELECT id, attempts, status, last_status, last_error, next_send_at FROM
    {rows(id uuid, attempts int, status text, last_status int, last_error text, next_send_at timestamptz)})
UPDATE webhook_execution SET status = input.status, last_status = input.last_status, last_error = input.last_error,
    next_send_at = input.next_send_at, updated_at = :now
FROM input
WHERE webhook_execution.id = input.id AND webhook_execution.attempts = input.attempts
    AND webhook_execution.status <> 'success'
RETURNING webhook_execution.id

-- name: settle_starts
WITH input AS (SELECT key, claimed_at, status, last_status, last_error FROM
    {rows(key text, claimed_at timestamptz, status text, last_status int, last_error text)})
UPDATE webhook_execution SET status = input.status, last_status = input.last_status, last_error = input.last_error,
    updated_at = :now
FROM input
WHERE webhook_execution.idempotency_key = input.key AND webhook_execution.status <> 'success'
    AND (input.status = 'success' OR (webhook_execution.sender = :instance
        AND webhook_execution.updated_at = coalesce(input.claimed_at, webhook_execution.updated_at)))
RETURNING webhook_execution.idempotency_key

-- name: next_delivery
{with whom}
SELECT min((
    SELECT w.next_send_at FROM webhook_execution w {by(webhook_execution_due)}
    WHERE w.destination = whom.destination AND w.next_send_at IS NOT NULL ORDER BY w.destination, w.next_send_at LIMIT 1
)) AS due_at
FROM whom LEFT JOIN {rows(destination text, room int)} ON input.destination = whom.destination
WHERE whom.destination IS NOT NULL AND coalesce(input.room, 1) > 0

-- name: task_deliveries
SELECT id, task_id, trigger, condition, action_index, attempt, idempotency_key, status, attempts, next_send_at,
    last_status, last_error, created_at, updated_at
FROM webhook_execution
WHERE idempotency_key >= :first AND idempotency_key < :last
ORDER BY created_at, idempotency_key LIMIT :most

-- name: read_deliveries
WITH input AS (SELECT id FROM {ids})
SELECT w.id, w.task_id, w.trigger, w.condition, w.action_index, w.attempt, w.idempotency_key, w.status, w.attempts,
    w.next_send_at, w.last_status, w.last_error, w.created_at, w.updated_at
FROM webhook_execution w JOIN input ON w.id = input.id

-- name: redrive_deliveries
WITH input AS (SELECT id FROM {ids})
UPDATE webhook_execution SET next_send_at = :now, updated_at = :now
FROM input
WHERE webhook_execution.id = input.id AND webhook_execution.trigger <> 'start'
    AND (webhook_execution.status = 'failure'
        OR (webhook_execution.status = 'pending' AND webhook_execution.attempts = 0))
RETURNING webhook_execution.id

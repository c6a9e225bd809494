-- name: old_batches
SELECT b.id FROM batch b
WHERE b.created_at < :before AND coalesce(b.retry_state, 'failed') NOT IN ('open', 'scheduled', 'retrying')
    AND NOT EXISTS (SELECT 1 FROM task t WHERE t.batch_id = b.id
        AND (t.status IN {live} OR t.last_updated >= :before))
    AND NOT EXISTS (SELECT 1 FROM task t
        JOIN webhook_execution w ON w.idempotency_key >= CAST(t.id AS text) || ':'
            AND w.idempotency_key < CAST(t.id AS text) || ';'
        WHERE t.batch_id = b.id AND w.next_send_at IS NOT NULL)
ORDER BY b.created_at LIMIT :most

-- name: forget_deliveries
DELETE FROM webhook_execution WHERE idempotency_key IN (
    SELECT w.idempotency_key FROM {ids} JOIN task t ON t.batch_id = input.id
    JOIN webhook_execution w ON w.idempotency_key >= CAST(t.id AS text) || ':'
        AND w.idempotency_key < CAST(t.id AS text) || ';'
)

-- name: forget_events
DELETE FROM event WHERE task_id IN (SELECT t.id FROM {ids} JOIN task t ON t.batch_id = input.id)

-- name: forget_attempts
DELETE FROM task_attempt WHERE task_id IN (SELECT t.id FROM {ids} JOIN task t ON t.batch_id = input.id)

-- name: forget_links
DELETE FROM link WHERE parent_id IN (SELECT t.id FROM {ids} JOIN task t ON t.batch_id = input.id)

-- name: forget_tasks
DELETE FROM task WHERE batch_id IN (SELECT id FROM {ids})

-- name: forget_batches
DELETE FROM batch WHERE id IN (SELECT id FROM {ids}) RETURNING id

-- name: forget_submissions
DELETE FROM submission WHERE created_at < :before

-- name: pause_scope
INSERT INTO pause (scope, name, created_at) VALUES (:scope, :name, :now) ON CONFLICT (scope, name) DO NOTHING
RETURNING name

-- name: resume_scope
DELETE FROM pause WHERE scope = :scope AND name = :name RETURNING name

-- name: sweep_page
SELECT id, status FROM task WHERE id > :after ORDER BY id LIMIT :most

-- name: recount_waits
SELECT t.id, t.batch_id, t.kind, t.attempt, t.waits, count(link.parent_id) AS counted
FROM {ids} JOIN task t ON t.id = input.id AND {guard(released, t)}
LEFT JOIN (link JOIN task parent ON parent.id = link.parent_id) ON link.child_id = t.id AND {guard(live, parent)}
GROUP BY t.id, t.batch_id, t.kind, t.attempt, t.waits
HAVING t.waits <> count(link.parent_id)

-- name: correct_waits
WITH input AS (SELECT id, waits FROM {rows(id uuid, waits int)})
UPDATE task SET from_status = status, waits = input.waits, last_updated = :now, version = version + 1,
    status = CASE WHEN input.waits = 0 THEN 'pending' ELSE status END
FROM input
WHERE task.id = input.id AND {guard(released)}
RETURNING {moved}

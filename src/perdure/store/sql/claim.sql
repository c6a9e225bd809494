-- name: open_lanes @postgres
WITH RECURSIVE lanes(lane) AS (
    SELECT (SELECT t.lane FROM task t {by(task_claim)} WHERE {claimable(t)} ORDER BY t.lane LIMIT 1)
    UNION ALL
    SELECT (SELECT t.lane FROM task t {by(task_claim)} WHERE {claimable(t)} AND t.lane > lanes.lane ORDER BY t.lane LIMIT 1)
    FROM lanes WHERE lanes.lane IS NOT NULL
)
SELECT head.lane, head.executor, head.kind, head.namespace, head.destination, head.rules, head.metadata,
    head.priority, head.created_at, head.position, EXISTS (
        SELECT 1 FROM pause WHERE (pause.scope = 'kind' AND pause.name = head.kind)
            OR (pause.scope = 'namespace' AND pause.name = head.namespace)
    ) AS held_back
FROM lanes CROSS JOIN LATERAL (
    SELECT t.* FROM task t {by(task_claim)} WHERE {claimable(t)} AND t.lane = lanes.lane
    ORDER BY t.lane, t.priority DESC, t.created_at, t.position LIMIT 1
) AS head
WHERE lanes.lane IS NOT NULL

-- name: open_lanes @sqlite
WITH RECURSIVE lanes(lane) AS (
    SELECT (SELECT t.lane FROM task t {by(task_claim)} WHERE {claimable(t)} ORDER BY t.lane LIMIT 1)
    UNION ALL
    SELECT (SELECT t.lane FROM task t {by(task_claim)} WHERE {claimable(t)} AND t.lane > lanes.lane ORDER BY t.lane LIMIT 1)
    FROM lanes WHERE lanes.lane IS NOT NULL
)
SELECT head.lane, head.executor, head.kind, head.namespace, head.destination, head.rules, head.metadata,
    head.priority, head.created_at, head.position, EXISTS (
        SELECT 1 FROM pause WHERE (pause.scope = 'kind' AND pause.name = head.kind)
            OR (pause.scope = 'namespace' AND pause.name = head.namespace)
    ) AS held_back
FROM lanes JOIN task head ON head.id = (
    SELECT t.id FROM task t {by(task_claim)} WHERE {claimable(t)} AND t.lane = lanes.lane
    ORDER BY t.lane, t.priority DESC, t.created_at, t.position LIMIT 1
)
WHERE lanes.lane IS NOT NULL

-- name: lane_heads @postgres
SELECT * FROM (
    SELECT head.*, input.places, row_number() OVER (
        PARTITION BY input.team ORDER BY head.priority DESC, head.created_at, head.position) AS place
    FROM {rows(lane bigint, room int, team int, places int)}
    CROSS JOIN LATERAL (
        SELECT t.id, t.lane, t.kind, t.namespace, t.metadata, t.expected_count, t.success, t.failures,
               t.last_updated, t.priority, t.created_at, t.position
        FROM task t {by(task_claim)} WHERE {claimable(t)} AND t.lane = input.lane
        ORDER BY t.lane, t.priority DESC, t.created_at, t.position LIMIT input.room
    ) AS head
) AS placed
WHERE place <= places
ORDER BY priority DESC, created_at, position LIMIT :most

-- name: lane_heads @sqlite
SELECT * FROM (
    SELECT t.id, t.lane, t.kind, t.namespace, t.metadata, t.expected_count, t.success, t.failures, t.last_updated,
           t.priority, t.created_at, t.position, input.places, row_number() OVER (
        PARTITION BY input.team ORDER BY t.priority DESC, t.created_at, t.position) AS place
    FROM {rows(lane bigint, room int, team int, places int)}
    CROSS JOIN json_each((
        SELECT json_group_array(id) FROM (
            SELECT t.id FROM task t {by(task_claim)} WHERE {claimable(t)} AND t.lane = input.lane
            ORDER BY t.lane, t.priority DESC, t.created_at, t.position LIMIT :most
        )
    )) AS head ON head.key < input.room
    CROSS JOIN task t ON t.id = head.value
)
WHERE place <= places
ORDER BY priority DESC, created_at, position LIMIT :most

-- name: take_heads @postgres
WITH heads AS (
    SELECT head.*, input.places, row_number() OVER (
        PARTITION BY input.team ORDER BY head.priority DESC, head.created_at, head.position) AS place
    FROM {rows(lane bigint, room int, team int, places int)}
    CROSS JOIN LATERAL (
        SELECT t.lane, t.priority, t.created_at, t.position
        FROM task t {by(task_claim)} WHERE {claimable(t)} AND t.lane = input.lane
        ORDER BY t.lane, t.priority DESC, t.created_at, t.position LIMIT input.room
    ) AS head
), chosen AS (
    SELECT lane FROM heads WHERE place <= places ORDER BY priority DESC, created_at, position LIMIT :most
), shares AS (
    SELECT lane, count(*) AS share FROM chosen GROUP BY lane
)
SELECT taken.id, taken.lane, taken.last_updated FROM shares
CROSS JOIN LATERAL (
    SELECT t.id, t.lane, t.last_updated FROM task t {by(task_claim)} WHERE {claimable(t)} AND t.lane = shares.lane
    ORDER BY t.lane, t.priority DESC, t.created_at, t.position LIMIT shares.share
    FOR UPDATE SKIP LOCKED
) AS taken

-- name: take_heads @sqlite
SELECT id, lane, last_updated FROM (
    SELECT t.id, t.lane, t.last_updated, t.priority, t.created_at, t.position, input.places, row_number() OVER (
        PARTITION BY input.team ORDER BY t.priority DESC, t.created_at, t.position) AS place
    FROM {rows(lane bigint, room int, team int, places int)}
    CROSS JOIN json_each((
        SELECT json_group_array(id) FROM (
            SELECT t.id FROM task t {by(task_claim)} WHERE {claimable(t)} AND t.lane = input.lane
            ORDER BY t.lane, t.priority DESC, t.created_at, t.position LIMIT :most
        )
    )) AS head ON head.key < input.room
    CROSS JOIN task t ON t.id = head.value
)
WHERE place <= places
ORDER BY priority DESC, created_at, position LIMIT :most

-- name: occupancy @postgres
SELECT input.n, watched.key, count(*) AS tasks,
       sum(greatest(coalesce(t.expected_count, 0) - t.success - t.failures, 0))::bigint AS work
FROM {rows(n int, kind text, namespace text, fields jsonb)}
JOIN task t ON t.status IN {active}
    AND (input.kind IS NULL OR t.kind = input.kind) AND (input.namespace IS NULL OR t.namespace = input.namespace)
CROSS JOIN LATERAL (
    SELECT coalesce(jsonb_agg(t.metadata -> field.name ORDER BY field.n), '[]')::text AS key
    FROM jsonb_array_elements_text(input.fields) WITH ORDINALITY AS field(name, n)
) AS watched
GROUP BY input.n, watched.key

-- name: occupancy @sqlite
SELECT input.n, metadata_values(t.metadata, input.fields) AS key, count(*) AS tasks,
       sum(max(coalesce(t.expected_count, 0) - t.success - t.failures, 0)) AS work
FROM {rows(n int, kind text, namespace text, fields jsonb)}
CROSS JOIN task t ON t.status IN {active}
WHERE true
    AND (input.kind IS NULL OR t.kind = input.kind) AND (input.namespace IS NULL OR t.namespace = input.namespace)
GROUP BY input.n, key

-- name: claim
WITH input AS (SELECT id, lane FROM {rows(id uuid, lane bigint)})
UPDATE task SET from_status = status, status = 'claimed', locked_by = :instance, lease_until = :lease_until,
    started_at = :now, version = version + 1
FROM input
WHERE task.id = input.id AND task.lane = input.lane AND {guard(claimed)} AND NOT task.paused
RETURNING {moved}, task.completion, task.destination

-- name: open_starts
INSERT INTO webhook_execution
    (id, task_id, trigger, condition, action_index, attempt, idempotency_key, status, attempts, sender,
     created_at, updated_at)
SELECT input.id, input.task_id, 'start', 'success', 0, input.attempt, input.key, 'pending', 1, :instance, :now, :now
FROM {rows(id uuid, task_id uuid, attempt int, key text)} WHERE true
ON CONFLICT (idempotency_key) DO UPDATE
SET status = 'pending', attempts = webhook_execution.attempts + 1, sender = excluded.sender, updated_at = excluded.updated_at
WHERE webhook_execution.status = 'failure'
    OR (webhook_execution.status = 'pending' AND webhook_execution.updated_at <= :stale)
RETURNING idempotency_key

-- name: read_starts
SELECT w.task_id, w.attempt, w.status FROM {rows(key text)}
JOIN webhook_execution w ON w.idempotency_key = input.key

-- name: release_claims
WITH input AS (SELECT id, attempt FROM {rows(id uuid, attempt int)})
UPDATE task SET from_status = status, status = 'pending', locked_by = NULL, lease_until = NULL, started_at = NULL,
    last_updated = :now, version = version + 1
FROM input
WHERE task.id = input.id AND task.attempt = input.attempt AND {guard(lease_lost)}
    AND coalesce(task.locked_by = :instance, FALSE)
RETURNING {moved}

-- name: forget_starts
DELETE FROM webhook_execution
WHERE idempotency_key IN (SELECT input.key FROM {rows(key text)}) AND status = 'pending' AND sender = :instance

-- name: expired_claims
SELECT task.id FROM task
WHERE task.lease_until IS NOT NULL AND task.lease_until <= :now AND {guard(lease_lost)}
ORDER BY task.lease_until LIMIT :most {lock skip}

-- name: reap_claims
WITH input AS (SELECT id FROM {ids})
UPDATE task SET from_status = status, status = 'pending', locked_by = NULL, lease_until = NULL, started_at = NULL,
    last_updated = :now, version = version + 1
FROM input
WHERE task.id = input.id AND {guard(lease_lost)} AND coalesce(task.lease_until <= :now, FALSE)
RETURNING {moved}

-- name: lock_name @postgres
SELECT name FROM lock WHERE name = :name FOR UPDATE

-- name: lock_name @sqlite
SELECT name FROM lock WHERE name = :name

-- name: try_lock_name @postgres
SELECT name FROM lock WHERE name = :name FOR UPDATE SKIP LOCKED

-- name: try_lock_name @sqlite
SELECT name FROM lock WHERE name = :name

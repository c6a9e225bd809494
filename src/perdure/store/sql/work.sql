-- name: begin
WITH input AS (SELECT id, lane FROM {rows(id uuid, lane bigint)})
UPDATE task SET from_status = status, status = 'running', locked_by = :instance, lease_until = :lease_until,
    started_at = :now, last_updated = :now, times_out_at = {after(:now, timeout)}, version = version + 1
FROM input
WHERE task.id = input.id AND task.lane = input.lane AND {guard(begun)} AND NOT task.paused
RETURNING {moved}, task.payload, task.timeout

-- name: renew_leases
WITH input AS (SELECT id, attempt FROM {rows(id uuid, attempt int)})
UPDATE task SET lease_until = :lease_until
FROM input
WHERE task.id = input.id AND task.attempt = input.attempt AND {guard(running)}
    AND coalesce(task.locked_by = :instance, FALSE)
RETURNING task.id, task.attempt

-- name: show_life
WITH input AS (SELECT id, attempt, done, total FROM {rows(id uuid, attempt int, done bigint, total bigint)})
UPDATE task SET success = coalesce(input.done, task.success), expected_count = coalesce(input.total, task.expected_count),
    last_updated = :now, times_out_at = CASE WHEN times_out_at IS NOT NULL THEN {after(:now, timeout)} END
FROM input
WHERE task.id = input.id AND task.attempt = input.attempt AND {guard(running)}
    AND coalesce(task.locked_by = :instance, FALSE)

-- name: lost_workers
SELECT task.id FROM task
WHERE task.lease_until IS NOT NULL AND task.lease_until <= :now AND {guard(running)}
ORDER BY task.lease_until LIMIT :most

-- name: parent_results
SELECT input.id, parent.key, parent.kind, parent.status, parent.result
FROM {ids} JOIN link ON link.child_id = input.id JOIN task parent ON parent.id = link.parent_id
ORDER BY input.id, parent.position

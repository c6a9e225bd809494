-- name: read_task
SELECT {task} FROM task WHERE task.id = :id

-- name: task_exists
SELECT task.id FROM task WHERE task.id = :id

-- name: task_events
SELECT seq, at, from_status, to_status, attempt, reason, instance FROM event
WHERE task_id = :id ORDER BY seq LIMIT :most

-- name: task_attempts
SELECT attempt, instance, started_at, ended_at, outcome, trigger, error_class, http_status, code, message, delay_secs,
    delay_source, charged, next_retry_at
FROM task_attempt WHERE task_id = :id ORDER BY attempt LIMIT :most

-- name: task_failures
SELECT attempt, ended_at, message, error_class, http_status, code FROM task_attempt
WHERE task_id = :id AND outcome IN ('failure', 'lost') ORDER BY attempt LIMIT :most

-- name: read_batch
SELECT id, name, namespace, context, retry_policy, definition, retry_of, attempt, created_at, retry_state,
    next_retry_at
FROM batch WHERE id = :id

-- name: batch_totals
SELECT CASE WHEN paused AND status IN {live} THEN 'paused' ELSE status END AS shown, kind,
    count(*) AS tasks, sum(success) AS success, sum(failures) AS failures, sum(expected_count) AS expected,
    count(expected_count) AS with_expected, min(created_at) AS first_created_at, max(last_updated) AS latest_updated_at
FROM task WHERE batch_id = :id GROUP BY 1, 2

-- name: batch_tasks
SELECT {short} FROM task WHERE task.batch_id = :id ORDER BY task.position

-- name: batch_links
SELECT link.parent_id, link.child_id, link.condition
FROM task JOIN link ON link.parent_id = task.id
WHERE task.batch_id = :id ORDER BY task.position, link.child_id

-- name: summaries
SELECT task.batch_id, CASE WHEN task.paused AND task.status IN {live} THEN 'paused' ELSE task.status END AS shown,
    task.kind, count(*) AS tasks, min(task.created_at) AS first_created_at, max(task.last_updated) AS latest_updated_at
FROM {ids} JOIN task ON task.batch_id = input.id
GROUP BY 1, 2, 3

-- name: list_pauses
SELECT scope, name, created_at FROM pause ORDER BY scope, name

-- name: tasks_by_status
SELECT CASE WHEN paused AND status IN {live} THEN 'paused' ELSE status END AS shown, count(*) AS tasks
FROM task GROUP BY 1

-- name: running_by_kind
SELECT kind, count(*) AS tasks FROM task WHERE status IN {active} GROUP BY kind

-- name: ping
SELECT max(version) AS version FROM schema_version

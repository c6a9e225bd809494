-- name: retry_counts @postgres
SELECT r.retry_strategy, count(*) FILTER (WHERE r.status IN ('pending', 'scheduled')) AS pending,
    count(*) FILTER (WHERE r.status = 'scheduled' AND r.scheduled_at <= :soon) AS scheduled_next_24h,
    count(*) FILTER (WHERE r.status = 'retrying') AS retrying,
    count(*) FILTER (WHERE r.status = 'completed') AS completed,
    count(*) FILTER (WHERE r.status = 'failed') AS failed,
    count(*) FILTER (WHERE (r.status = 'failed' AND r.current_attempt >= r.max_attempts)
        OR (r.status = 'pending' AND EXISTS (
            SELECT 1 FROM task WHERE task.id = CAST(r.target_id AS uuid) AND task.parked))) AS exhausted
FROM retry_schedules r GROUP BY r.retry_strategy

-- name: retry_counts @sqlite
SELECT r.retry_strategy, count(*) FILTER (WHERE r.status IN ('pending', 'scheduled')) AS pending,
    count(*) FILTER (WHERE r.status = 'scheduled'
        AND r.scheduled_at <= strftime('%Y-%m-%d %H:%M:%f', :soon / 1000 / 1000.0, 'unixepoch')) AS scheduled_next_24h,
    count(*) FILTER (WHERE r.status = 'retrying') AS retrying,
    count(*) FILTER (WHERE r.status = 'completed') AS completed,
    count(*) FILTER (WHERE r.status = 'failed') AS failed,
    count(*) FILTER (WHERE (r.status = 'failed' AND r.current_attempt >= r.max_attempts)
        OR (r.status = 'pending' AND EXISTS (
            SELECT 1 FROM task WHERE task.id = r.target_id AND task.parked))) AS exhausted
FROM retry_schedules r GROUP BY r.retry_strategy

-- name: retry_delays
SELECT task.retry_policy ->> 'strategy' AS retry_strategy, count(*) AS delays, sum(a.delay_secs) AS total_secs
FROM task JOIN task_attempt a ON a.task_id = task.id AND a.delay_secs IS NOT NULL
WHERE task.retry_policy IS NOT NULL AND (task.attempt > 0 OR task.status = 'failure')
GROUP BY 1

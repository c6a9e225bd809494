-- name: doomed_children
WITH RECURSIVE roots(id) AS (SELECT id FROM {ids}), doomed(id) AS (
    SELECT link.child_id FROM roots
    JOIN link ON link.parent_id = roots.id AND link.condition = 'on_success'
    JOIN task child ON child.id = link.child_id AND {guard(parent_failed, child)}
    UNION
    SELECT link.child_id FROM doomed
    JOIN link ON link.parent_id = doomed.id AND link.condition = 'on_success'
    JOIN task child ON child.id = link.child_id AND {guard(parent_failed, child)}
)
SELECT doomed.id, parent.id AS parent_id, parent.name AS parent_name
FROM doomed
-- There is always such a link and its parent; LEFT keeps SQLite from beginning with all links.
LEFT JOIN link ON link.child_id = doomed.id AND link.condition = 'on_success'
LEFT JOIN task parent ON parent.id = link.parent_id
ORDER BY doomed.id, parent.position

-- name: doom
WITH input AS (SELECT id, reason, ended_by FROM {rows(id uuid, reason text, ended_by uuid)})
UPDATE task SET {ended}, status = 'failure', failure_reason = input.reason, ended_by = input.ended_by
FROM input
WHERE task.id = input.id AND {guard(parent_failed)}
RETURNING {moved}

-- name: skipped_children
WITH RECURSIVE roots AS (SELECT id, outcome FROM {rows(id uuid, outcome text)}), skipped(id) AS (
    SELECT link.child_id FROM roots
    JOIN link ON link.parent_id = roots.id AND (
        (roots.outcome = 'success' AND link.condition = 'on_failure')
        OR (roots.outcome = 'skipped' AND link.condition IN ('on_success', 'on_failure')))
    JOIN task child ON child.id = link.child_id AND {guard(condition_lost, child)}
    UNION
    SELECT link.child_id FROM skipped
    JOIN link ON link.parent_id = skipped.id AND link.condition IN ('on_success', 'on_failure')
    JOIN task child ON child.id = link.child_id AND {guard(condition_lost, child)}
)
SELECT id FROM skipped

-- name: skip
WITH input AS (SELECT id FROM {ids})
UPDATE task SET {ended}, status = 'skipped'
FROM input
WHERE task.id = input.id AND {guard(condition_lost)}
RETURNING {moved}

-- name: release_children
WITH freed AS (
    SELECT link.child_id AS id, count(*) AS met FROM {rows(id uuid, outcome text)}
    JOIN link ON link.parent_id = input.id AND (
        link.condition = 'always'
        OR (input.outcome = 'success' AND link.condition = 'on_success')
        OR (input.outcome IN ('failure', 'canceled') AND link.condition = 'on_failure'))
    GROUP BY link.child_id
)
UPDATE task SET from_status = status, version = version + 1, last_updated = :now,
    waits = CASE WHEN waits > freed.met THEN waits - freed.met ELSE 0 END,
    status = CASE WHEN waits > freed.met THEN status ELSE 'pending' END
FROM freed
WHERE task.id = freed.id AND {guard(released)}
RETURNING task.id, task.batch_id, task.kind, task.status, task.attempt, task.delayed, task.run_at

-- name: dead_ends
WITH RECURSIVE climb(id, via) AS (
    SELECT parent.id, finished.id FROM {ids}
    JOIN task finished ON finished.id = input.id AND NOT finished.dead_end_barrier
    JOIN link ON link.child_id = finished.id AND link.condition IN ('on_success', 'always')
    JOIN task parent ON parent.id = link.parent_id AND {guard(canceled, parent)}
    WHERE NOT EXISTS (
        SELECT 1 FROM link other JOIN task child ON child.id = other.child_id AND {guard(live, child)}
        WHERE other.parent_id = parent.id AND other.condition IN ('on_success', 'always'))
    UNION
    SELECT parent.id, finished.id FROM climb
    JOIN task finished ON finished.id = climb.id AND NOT finished.dead_end_barrier
    JOIN link ON link.child_id = finished.id AND link.condition IN ('on_success', 'always')
    JOIN task parent ON parent.id = link.parent_id AND {guard(canceled, parent)}
    WHERE NOT EXISTS (
        SELECT 1 FROM link other JOIN task child ON child.id = other.child_id AND {guard(live, child)}
        WHERE other.parent_id = parent.id AND other.condition IN ('on_success', 'always') AND child.id <> finished.id)
)
SELECT id, via FROM climb

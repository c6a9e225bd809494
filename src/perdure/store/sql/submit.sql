-- name: reserve_submissions @postgres
INSERT INTO submission (key, body_hash, status, batch_id, answer, created_at)
SELECT input.key, input.body_hash, 0, '', '', :now FROM {rows(key text, body_hash text)} WHERE true
ON CONFLICT (key) DO NOTHING
RETURNING key

-- name: reserve_submissions @sqlite
INSERT INTO submission (key, body_hash, status, batch_id, answer, created_at)
SELECT input.key, input.body_hash, 0, '', x'', :now FROM {rows(key text, body_hash text)} WHERE true
ON CONFLICT (key) DO NOTHING
RETURNING key

-- name: read_submissions
SELECT s.key, s.body_hash, s.status, s.batch_id, s.answer
FROM {rows(key text)} JOIN submission s ON s.key = input.key

-- name: answer_submissions @postgres
UPDATE submission SET status = :status, batch_id = :batch_id, answer = :answer WHERE key = :key

-- name: answer_submissions @sqlite
UPDATE submission SET status = :status, batch_id = :batch_id, answer = :answer WHERE key = :key

-- name: find_twins @postgres
WITH input AS (SELECT id, kind, status, wanted FROM {rows(id uuid, kind text, status text, wanted jsonb)}), alike AS (
    SELECT input.id, input.wanted, t.metadata FROM input
    JOIN task t ON t.kind = input.kind AND t.status = input.status AND NOT t.paused
    UNION ALL
    SELECT input.id, input.wanted, t.metadata FROM input
    JOIN task t ON input.status = 'paused' AND t.kind = input.kind AND t.status IN {live} AND t.paused
)
SELECT DISTINCT alike.id FROM alike WHERE NOT EXISTS (
    SELECT 1 FROM jsonb_each(alike.wanted) AS field(name, value)
    WHERE alike.metadata -> field.name IS DISTINCT FROM field.value
)

-- name: find_twins @sqlite
SELECT DISTINCT input.id
FROM {rows(id uuid, kind text, status text, wanted jsonb)}
JOIN task t ON t.kind = input.kind AND (
        (t.status = input.status AND NOT t.paused) OR (input.status = 'paused' AND t.status IN {live} AND t.paused))
WHERE metadata_has(t.metadata, input.wanted)

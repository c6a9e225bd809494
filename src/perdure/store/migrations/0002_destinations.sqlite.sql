-- Whom an on_start calls, and an end or cancel webhook: so that a slow one does not take the places of others. Rows from
-- before have none, and share nothing.
ALTER TABLE task ADD COLUMN destination TEXT NOT NULL DEFAULT '';
ALTER TABLE webhook_execution ADD COLUMN destination TEXT NOT NULL DEFAULT '';
DROP INDEX webhook_execution_due;
CREATE INDEX webhook_execution_due ON webhook_execution (destination, next_send_at) WHERE next_send_at IS NOT NULL;

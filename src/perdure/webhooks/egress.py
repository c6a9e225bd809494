"""What may leave: the rules that a webhook is checked by when it is handed in, and again when it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perdure.webhooks.guard import Guard, OpenGuard, check_headers, check_target
from perdure.webhooks.secrets import NO_SECRETS, Secrets


@dataclass(frozen=True, slots=True)
class Egress:
    """Who may be called, and which secrets a header may name."""

    guard: Guard
    secrets: Secrets = NO_SECRETS

    def check_url(self, url: str) -> list[str]:
        """Why this URL must not be called; host names are not looked up."""
        return check_target(url, self.guard)

    def check_headers(self, headers: Mapping[str, str]) -> list[str]:
        return [*check_headers(headers), *self.secrets.check(headers)]

    def for_receivers(self) -> Egress:
        """The rules for webhooks that a receiver asks for: it must not have our secrets sent to itself."""
        return Egress(self.guard)


OPEN = Egress(OpenGuard())

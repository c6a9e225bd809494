"""What is sent to a receiver, what came back, and who sends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from perdure.webhooks.one_line import body_in_words

#: The answer's headers that somebody reads later; the others are dropped.
KEPT_HEADERS = ("retry-after", "ratelimit-reset", "x-ratelimit-reset", "content-type")


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """One call, complete: nothing else is looked up to send it.

    What may hold secrets (URL, body, headers, handle) is left out of its printed form.
    """

    url: str = field(repr=False)
    verb: str
    #: JSON text, sent as it stands; None sends no body.
    body: str | None = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    #: For the whole call, from the first look at the address to the last byte of the answer.
    timeout_secs: float
    idempotency_key: str
    task_id: str
    #: start, success, failure or cancel.
    trigger: str
    attempt: int
    #: Where the receiver reports; added to the query of the URL.
    handle: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class WebhookAnswer:
    """How a call ended. Exactly one of `status` and `error_code` is set.

    A 2xx answer whose body broke off has no status: nobody can say that it was accepted. A refusal keeps its
    status whatever became of its body.
    """

    status: int | None
    duration_secs: float
    body: bytes = field(default=b"", repr=False)
    #: The body went on beyond what is kept, or broke off.
    truncated: bool = False
    #: The kept ones, names in lower case.
    headers: Mapping[str, str] = field(default_factory=dict)
    #: What kept an answer from arriving: see `perdure.webhooks.failures`.
    error_code: str | None = None
    #: The same for people: names the other side, never the path, query or headers of the request.
    error: str | None = None

    @property
    def accepted(self) -> bool:
        return self.status is not None and 200 <= self.status <= 299

    def describe(self) -> str:
        """The outcome in a few words, as it stands in failure reasons."""
        if self.status is not None:
            return f"HTTP {self.status}"
        return self.error or self.error_code or "no answer"

    def describe_fully(self) -> str:
        """The outcome, and behind it the beginning of what the receiver wrote about it."""
        said = "" if self.status is None else body_in_words(self.body)
        return f"{self.describe()}: {said}" if said else self.describe()


class Sender(Protocol):
    """Sends webhooks."""

    async def send(self, request: WebhookRequest) -> WebhookAnswer:
        """Calls the receiver once. What the other side does is in the answer.

        Raises `NoPlace` if nothing was sent because too many calls to the destination are under way.
        """

    async def close(self) -> None:
        """Drops all connections. Calls still under way fail: end them first."""

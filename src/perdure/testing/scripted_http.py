"""What receivers answer: one script for each beginning of a URL, step after step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self

import msgspec

from perdure.clock import Clock
from perdure.domain.durations import parse_duration
from perdure.webhooks.failures import CONNECTION_ERROR, ERROR_CODES
from perdure.webhooks.request import KEPT_HEADERS

TOO_MANY_REQUESTS = 429


@dataclass(frozen=True, slots=True)
class Reply:
    """What becomes of one call; without a status no answer comes, and `error_code` says why."""

    status: int | None = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    error_code: str | None = None
    takes_secs: float = 0.0


@dataclass(slots=True)
class Step:
    """One part of a script: a reply, and how often or how long it is the one to give."""

    reply: Reply
    times: int | None = None
    lasts_secs: float | None = None
    counts_down: bool = False
    """Begins with its first call, and tells callers how long it still lasts."""
    began_at: datetime | None = None
    given: int = 0

    @property
    def has_end(self) -> bool:
        return self.times is not None or self.lasts_secs is not None

    @property
    def ends_at(self) -> datetime | None:
        if self.began_at is None or self.lasts_secs is None:
            return None
        return self.began_at + timedelta(seconds=self.lasts_secs)

    def is_over(self, now: datetime, followed: bool) -> bool:
        if self.times is not None and self.given >= self.times:
            return True
        if self.ends_at is not None and now >= self.ends_at:
            return True
        return followed and not self.has_end and self.given > 0

    def give(self, now: datetime) -> Reply:
        self.given += 1
        if not self.counts_down:
            return self.reply
        self.began_at = self.began_at or now
        assert self.lasts_secs is not None
        left = math.ceil(self.lasts_secs - (now - self.began_at).total_seconds())
        return Reply(
            self.reply.status,
            self.reply.body,
            {**self.reply.headers, "retry-after": str(left)},
            takes_secs=self.reply.takes_secs,
        )


class Endpoint:
    """What stands behind the URLs that begin with `prefix`.

    Each step is the answer to one call, to as many as `times` says, or to all while it lasts; then comes the next. The
    last one goes on for ever unless it has an end, and behind its end everything is answered with 200.
    """

    def __init__(self, prefix: str, clock: Clock) -> None:
        self.prefix = prefix
        self._clock = clock
        self._steps: list[Step] = []

    def __repr__(self) -> str:
        return f"<endpoint {self.prefix}>"

    def answers(
        self,
        status: int = 200,
        *,
        json: Any = None,
        text: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """Answer with this status; `json` or `text` is the body."""
        if not 100 <= status <= 599:
            raise ValueError(f"{status} is no HTTP status")
        body = b"" if json is None else msgspec.json.encode(json)
        if text is not None:
            body = text.encode()
        return self._add(Step(Reply(status, body, _kept(headers or {}))))

    def then(
        self,
        status: int | None = None,
        *,
        json: Any = None,
        text: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """What comes next: a status, or whatever is called on the result, as in `.then().down("5m")`."""
        return self if status is None else self.answers(status, json=json, text=text, headers=headers)

    def down(self, duration: float | str | None = None, *, code: str = CONNECTION_ERROR) -> Self:
        """Refuse connections, from now or from the end of the step before, so long; without a duration for ever.

        `code` is the reason, such as `dns_error` or `tls_error`.
        """
        if code not in ERROR_CODES:
            raise ValueError(f"there is no error code {code!r}; there are {', '.join(sorted(ERROR_CODES))}")
        lasts_secs = None if duration is None else parse_duration(duration)
        return self._add(Step(Reply(None, error_code=code), lasts_secs=lasts_secs))

    def rate_limited(self, duration: float | str, *, status: int = TOO_MANY_REQUESTS) -> Self:
        """From the first call on, answer so long with 429 and how many seconds of it are left in Retry-After."""
        return self._add(Step(Reply(status), lasts_secs=parse_duration(duration), counts_down=True))

    def times(self, count: int) -> Self:
        """Give the latest answer to so many calls."""
        if count < 1:
            raise ValueError("times must be at least 1")
        self._latest.times = count
        return self

    def slow(self, duration: float | str) -> Self:
        """Let the latest answer take so long. Where the caller's timeout is shorter, no answer comes."""
        step = self._latest
        reply = step.reply
        step.reply = Reply(reply.status, reply.body, reply.headers, reply.error_code, parse_duration(duration))
        return self

    def reply_to_call(self) -> Reply:
        """Take the reply to a call that is made now."""
        now = self._clock.now()
        while self._steps and self._steps[0].is_over(now, followed=len(self._steps) > 1):
            over = self._steps.pop(0)
            if self._steps:
                self._begin(self._steps[0], over.ends_at or now)
        return self._steps[0].give(now) if self._steps else Reply()

    @property
    def _latest(self) -> Step:
        if not self._steps:
            self.answers(200)
        return self._steps[-1]

    def _add(self, step: Step) -> Self:
        if not self._steps:
            self._begin(step, self._clock.now())
        self._steps.append(step)
        return self

    @staticmethod
    def _begin(step: Step, moment: datetime) -> None:
        if not step.counts_down:
            step.began_at = moment


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    """Those that the engine reads, as it gets them."""
    lowered = {name.lower(): str(value) for name, value in headers.items()}
    return {name: value for name, value in lowered.items() if name in KEPT_HEADERS}

"""One answer, read as it arrives: bounded in every part, and no further than it is kept."""

from __future__ import annotations

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpResponseParser

from perdure.webhooks.body import BoundedBody
from perdure.webhooks.failures import AnswerTooLarge, BadAnswer
from perdure.webhooks.request import KEPT_HEADERS

_LINE_LIMIT = 8 * 1024
_HEADER_COUNT_LIMIT = 128
_KEPT_HEADER_LENGTH = 256
_SHOWN_LENGTH = 100
_LINE_END = b"\r\n"

_KEPT = {name.encode(): name for name in (*KEPT_HEADERS, "content-encoding")}


class Answer:
    """What has arrived of an answer; the methods named `on_…` are the parser's."""

    def __init__(self, body_limit: int, *, bodiless: bool = False) -> None:
        #: Set with the headers, once all of them have arrived.
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.body: BoundedBody | None = None
        #: Nothing more is wanted: it has arrived as a whole, or as far as it is kept.
        self.complete = False
        #: It was complete, and nothing came behind it: the connection can serve again.
        self.reusable = False
        #: How many 1xx came before it.
        self.interim_count = 0
        self._body_limit = body_limit
        self._bodiless = bodiless
        self._ends_with_connection = True
        self._header_count = 0
        self._status_line_length = 0
        self._unparsed = 0
        self._parser = HttpResponseParser(self)
        # What careless programs write without meaning harm; nothing of it changes where an answer ends.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )

    def feed(self, data: bytes) -> None:
        """Takes what has arrived. Raises `BadAnswer` and `AnswerTooLarge`."""
        if self.complete:
            self.reusable = False
        else:
            self._parse(data)

    def end(self) -> bool:
        """Nothing more will arrive. Whether the answer is complete."""
        if self.status is not None and self._ends_with_connection:
            self.complete = True
        return self.complete

    def _parse(self, data: bytes) -> None:
        self._unparsed += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as problem:
            if not self.complete:
                raise self._complaint(problem, data) from None
            # What came behind the answer is nothing that could be read.
            self.reusable = False
        if self.complete:
            # The parser holds our methods: without it, neither has to wait for the garbage collector.
            del self._parser
        elif self._unparsed > 2 * _LINE_LIMIT:
            # The parser gathers a line until it has ended.
            raise AnswerTooLarge

    def on_message_begin(self) -> None:
        if self.complete:
            self.reusable = False

    def on_status(self, reason: bytes) -> None:
        self._unparsed = 0
        self._status_line_length += len(reason)
        if self._status_line_length > _LINE_LIMIT:
            raise AnswerTooLarge

    def on_header(self, name: bytes, value: bytes) -> None:
        self._unparsed = 0
        self._header_count += 1
        if self._header_count > _HEADER_COUNT_LIMIT or len(name) + len(value) > _LINE_LIMIT:
            raise AnswerTooLarge
        if b"\x00" in value:
            raise BadAnswer("Invalid header value")
        if self.status is not None:
            # A trailer.
            return
        folded = name.lower()
        if folded in _KEPT:
            self.headers.setdefault(_KEPT[folded], value[:_KEPT_HEADER_LENGTH].decode("utf-8", "replace"))
        elif folded == b"content-length" or (folded == b"transfer-encoding" and b"chunked" in value.lower()):
            self._ends_with_connection = False

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self.complete or _is_interim(status):
            return
        self.status = status
        self.body = BoundedBody(self._body_limit, self.headers.pop("content-encoding", ""))
        self._header_count = 0
        if self._bodiless:
            self.complete = True
            self.reusable = self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        self._unparsed = 0
        if self.complete or self.body is None:
            self.reusable = False
            return
        self.body.feed(data)
        # The rest would have to be read before the connection could serve again.
        self.complete = self.body.full

    def on_message_complete(self) -> None:
        if self.complete:
            return
        if self.status is None:
            self._forget_interim()
            return
        self.complete = True
        self.reusable = self.status != 101 and self._parser.should_keep_alive()

    def _forget_interim(self) -> None:
        self.interim_count += 1
        self.headers.clear()
        self._ends_with_connection = True
        self._header_count = self._status_line_length = self._unparsed = 0

    def _complaint(self, problem: Exception, data: bytes) -> Exception:
        if isinstance(problem, HttpParserCallbackError):
            cause = problem.__context__
            return cause if isinstance(cause, Exception) else problem
        complaint = str(problem)
        if self._status_line_length == self._header_count == 0:
            # Nothing of it was HTTP: what it is instead tells who was called.
            complaint += f": {data[:_SHOWN_LENGTH].partition(_LINE_END)[0]!r}"
        return BadAnswer(complaint)


def _is_interim(status: int) -> bool:
    """Whether another answer follows; behind 101 comes something else than HTTP."""
    return 100 <= status < 200 and status != 101

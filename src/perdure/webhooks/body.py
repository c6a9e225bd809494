"""Reads an answer's body up to a limit, counted after decompression."""

from __future__ import annotations

import zlib

#: How much may be received for each byte that is kept: ends streams that decompress to nothing.
_RECEIVED_PER_KEPT = 2


class BoundedBody:
    """Collects at most `limit` bytes.

    A body that is not what its Content-Encoding says, or that is encoded in a way which was not asked for,
    is kept as it came.
    """

    def __init__(self, limit: int, content_encoding: str = "") -> None:
        self._limit = limit
        self._encoding = content_encoding.strip().lower()
        self._decoder: zlib._Decompress | None = None
        self._kept = bytearray()
        self._received = 0
        self._cut = False

    @property
    def full(self) -> bool:
        """Nothing that follows would be kept."""
        return self._cut or len(self._kept) > self._limit

    @property
    def truncated(self) -> bool:
        return self.full or (self._decoder is not None and not self._decoder.eof)

    @property
    def content(self) -> bytes:
        return bytes(self._kept[: self._limit])

    def feed(self, chunk: bytes) -> None:
        """Takes what has arrived. One byte beyond the limit is taken, to know that there is more."""
        if self.full or not chunk:
            return
        room = self._limit + 1 - len(self._kept)
        if self._received == 0:
            self._decoder = _decoder_for(self._encoding, chunk)
        first, self._received = self._received == 0, self._received + len(chunk)
        if self._decoder is None:
            self._kept += chunk[:room]
            return
        try:
            self._kept += self._decoder.decompress(chunk, room)
        except zlib.error:
            if first:
                self._decoder = None
                self._kept += chunk[:room]
            else:
                self._cut = True
            return
        if self._decoder.unused_data or self._received > _RECEIVED_PER_KEPT * self._limit:
            self._cut = True


def _decoder_for(encoding: str, start: bytes) -> zlib._Decompress | None:
    if encoding in ("gzip", "x-gzip"):
        return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    if encoding == "deflate":
        # Half of the world sends deflate with a zlib header, as specified, the other half without.
        has_zlib_header = start[0] & 0x0F == 8
        return zlib.decompressobj(wbits=zlib.MAX_WBITS if has_zlib_header else -zlib.MAX_WBITS)
    return None

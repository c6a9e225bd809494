"""Where a webhook goes: what is busy, slow or down is a destination, whatever is asked of it."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit

#: Of tasks that call nobody.
NOWHERE = ""
_USUAL_PORTS = {"http": 80, "https": 443}


@lru_cache(maxsize=1024)
def destination_of(url: str) -> str:
    """Scheme, host and port of a URL that was found to be well formed."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    shown = f"[{host}]" if ":" in host else host
    usual = parts.port in (None, _USUAL_PORTS.get(parts.scheme))
    return f"{parts.scheme}://{shown}" if usual else f"{parts.scheme}://{shown}:{parts.port}"

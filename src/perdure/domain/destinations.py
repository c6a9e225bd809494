"""Where a webhook goes: what is busy, slow or down is a destination, whatever is asked of it."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit

#: Of what calls nobody.
NOWHERE = ""
_USUAL_PORTS = {"http": 80, "https": 443}


@lru_cache(maxsize=1024)
def destination_of(url: str) -> str:
    """Scheme, host and port of a URL. What is none leads nowhere: nobody can be called by it."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return NOWHERE
    if not parts.scheme or not host:
        return NOWHERE
    shown = f"[{host}]" if ":" in host else host
    usual = port in (None, _USUAL_PORTS.get(parts.scheme))
    return f"{parts.scheme}://{shown}" if usual else f"{parts.scheme}://{shown}:{port}"

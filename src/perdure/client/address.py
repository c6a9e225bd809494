"""Where a server is."""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

from perdure.client.errors import ClientError

URL_VARIABLE = "PERDURE_URL"
DEFAULT_URL = "http://127.0.0.1:8000"
_VISIBLE = re.compile(r"[!-~]+")


def server_url(given: str | None) -> str:
    """The address that was given, else that of PERDURE_URL, else this machine; raises ClientError if it is none."""
    url = (given or os.environ.get(URL_VARIABLE, "")).strip() or DEFAULT_URL
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    else:
        if parts.username is not None or parts.password is not None:
            # It may hold a password, so it is not repeated.
            raise ClientError("The server's address must not hold a name or password; a token is given as token=.")
    if not is_address or not _VISIBLE.fullmatch(url) or "?" in url or "#" in url:
        raise ClientError(f"{url!r} is no server's address; it must look like {DEFAULT_URL}.")
    return url.rstrip("/")

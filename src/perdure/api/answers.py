"""How answers are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

encode = msgspec.json.Encoder().encode


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """`value` as JSON."""
    return Response(encode(value), status, headers, "application/json")

"""Stands in for curl on machines that have none. Knows the options that the documentation uses, and refuses others."""

from __future__ import annotations

import argparse
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote, urlsplit


def main() -> int:
    options = _parse(sys.argv[1:])
    url = urlsplit(options.url if "://" in options.url else f"http://{options.url}")
    fields = [f"{name}={quote(value, safe='')}" for name, _, value in (one.partition("=") for one in options.encoded)]
    target = "?".join(filter(None, (url.path or "/", "&".join(filter(None, (url.query, *fields))))))
    headers = {name.strip(): value.strip() for name, _, value in (one.partition(":") for one in options.header)}
    body = None if options.data is None else _data(options.data)
    if body is not None:
        headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
    connection = HTTPConnection(url.netloc, timeout=30)
    connection.request(options.request or ("GET" if body is None else "POST"), target, body, headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    if options.include:
        lines = [
            f"HTTP/1.1 {answer.status} {answer.reason}",
            *(f"{name}: {value}" for name, value in answer.getheaders()),
        ]
        sys.stdout.write("\r\n".join(lines) + "\r\n\r\n")
    if options.output:
        Path(options.output).write_bytes(content)
    else:
        sys.stdout.write(content.decode())
    if options.write_out:
        sys.stdout.write(options.write_out.replace("%{http_code}", str(answer.status)).replace("\\n", "\n"))
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="curl", allow_abbrev=False)
    parser.add_argument("-s", "--silent", action="store_true")
    parser.add_argument("-i", "--include", action="store_true")
    parser.add_argument("-G", "--get", action="store_true")
    parser.add_argument("-X", "--request")
    parser.add_argument("-H", "--header", action="append", default=[])
    parser.add_argument("-d", "--data")
    parser.add_argument("--data-urlencode", dest="encoded", action="append", default=[])
    parser.add_argument("-o", "--output")
    parser.add_argument("-w", "--write-out")
    parser.add_argument("url")
    return parser.parse_args(arguments)


def _data(text: str) -> bytes:
    if not text.startswith("@"):
        return text.encode()
    return sys.stdin.buffer.read() if text == "@-" else Path(text[1:]).read_bytes()


if __name__ == "__main__":
    sys.exit(main())

"""Running an instance: opening, listening, and stopping without losing anything."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Iterator

import uvicorn

from perdure import __version__
from perdure.api.app import build_app
from perdure.assemble import Instance, make_instance
from perdure.cli.processes import START_FAILED, run_processes
from perdure.config import Settings
from perdure.config.addresses import SQLITE_PREFIX
from perdure.config.problems import mask_password
from perdure.domain.errors import PerdureError
from perdure.telemetry.logs import configure_logging

log = logging.getLogger("perdure")

BACKLOG = 2048
SWITCH_SECS = 0.0003


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the engine drains first, while receivers can still report."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve_forever(settings: Settings) -> int:
    """Run until a signal says stop; the exit code."""
    configure_logging(settings.log.level, settings.log.format)
    refusal = _refuse_listening(settings)
    if refusal is not None:
        print(refusal, file=sys.stderr)
        return 2
    listening = None
    if settings.server.api:
        try:
            listening = _listen(settings.server.host, settings.server.port)
        except OSError as error:
            print(
                f"Cannot listen on {settings.server.host}:{settings.server.port}: {error.strerror or error}. "
                "Is another server running there? Choose another port with --port.",
                file=sys.stderr,
            )
            return 2
    return run_processes(settings.server.workers, run_instance, settings, listening)


def share_interpreter(settings: Settings) -> None:
    """SQLite's thread hands the interpreter over at every row, and shall not wait 5 ms each time to have it back."""
    if settings.server.database_url.startswith(SQLITE_PREFIX):
        sys.setswitchinterval(SWITCH_SECS)


def run_instance(settings: Settings, listening: socket.socket | None) -> int:
    """One process: its engine, its API. Returns its exit code, START_FAILED where it has said why."""
    share_interpreter(settings)
    configure_logging(settings.log.level, settings.log.format)
    try:
        with asyncio.Runner(loop_factory=event_loop()) as runner:
            runner.run(_run(settings, listening))
    except PerdureError as error:
        print(f"perdure cannot start: {error}", file=sys.stderr)
        return START_FAILED
    return 0


async def _run(settings: Settings, listening: socket.socket | None) -> None:
    port = listening.getsockname()[1] if listening is not None else None
    host_url = settings.callback_url(port)
    instance = make_instance(settings, host_url, port=port)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    await instance.store.open()
    server = None
    serving = None
    ready = asyncio.Event()
    if listening is not None:
        app = build_app(instance.engine.commands, instance.store, instance.metrics, settings, ready=ready.is_set)
        server = _Server(
            uvicorn.Config(
                app,
                log_config=None,
                log_level="warning",
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=int(settings.server.shutdown_grace_secs) or 1,
            )
        )
        serving = asyncio.create_task(server.serve(sockets=[listening]))
    await instance.engine.start(work=settings.server.engine)
    ready.set()
    _greet(instance, host_url, port)
    waits = [asyncio.create_task(stopping.wait()), *([serving] if serving else [])]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    log.info("stopping: no new claims; finishing what is under way")
    ready.clear()
    await instance.engine.stop()
    if server is not None and serving is not None:
        server.should_exit = True
        await serving
    # What was still counted while the last requests were answered.
    await instance.engine.flush()
    await instance.store.close()
    log.info("stopped; everything acknowledged is on disk")


def _greet(instance: Instance, host_url: str, port: int | None) -> None:
    settings = instance.settings
    lines = [f"perdure {__version__}"]
    if port is not None:
        host = settings.server.host
        shown = f"[{host}]" if ":" in host else host
        lines.append(f"  listening   http://{shown}:{port}   (API docs at /docs, metrics at /metrics)")
        lines.append(f"  callbacks   {host_url}")
    lines.append(f"  database    {mask_password(settings.server.database_url)}")
    lines.append(f"  instance    {instance.id}")
    lines.append(f"  runs tasks  {_describe_work(settings)}")
    if settings.listens_on_loopback_only:
        lines.append("  open        to programs on this machine only; no token is needed")
    if settings.loopback_allowed:
        lines.append("  webhooks    may call this machine (PERDURE_ALLOW_LOOPBACK=0 closes it)")
    print("\n".join(lines), file=sys.stderr, flush=True)


def _describe_work(settings: Settings) -> str:
    if not settings.server.engine:
        return "no (--no-engine)"
    parts = []
    if settings.server.kinds:
        parts.append(f"kinds {', '.join(settings.server.kinds)}")
    if settings.server.namespaces:
        parts.append(f"namespaces {', '.join(settings.server.namespaces)}")
    return " of ".join(parts) or "all kinds, all namespaces"


def _refuse_listening(settings: Settings) -> str | None:
    if not settings.server.api or settings.listens_on_loopback_only:
        return None
    return (
        f"perdure refuses to listen on {settings.server.host}: without access tokens the API would be open to "
        "everybody who can reach it. Listen on 127.0.0.1, and let a proxy with authentication stand in front."
    )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((host, port))
    listening.listen(BACKLOG)
    listening.setblocking(False)
    return listening


def event_loop() -> type[asyncio.AbstractEventLoop] | None:
    """The fastest one there is."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop

"""A nightly ETL with branches:

    extract ── validate ── load ──────────────────── report
                  └─ on failure: quarantine ─┘

Monday is late and then fine. Tuesday has a row that nobody can read, so its file goes to quarantine. Wednesday never
comes. There is a report of each night, whatever happened.

    python examples/nightly_etl.py

With DATABASE_URL it runs on that database, else on a file that is gone afterwards.
"""

from __future__ import annotations

import asyncio
import csv
import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

from perdure import Context, Final, NoResult, Perdure, Retry, TaskHandle

app = Perdure()


def say(line: str) -> None:
    """Several threads speak here; a line that is written at once stays whole."""
    sys.stdout.write(f"{line}\n")


MONDAY, TUESDAY, WEDNESDAY = (date(2026, 11, day) for day in (16, 17, 18))
SALES = {
    MONDAY: "shop,amount\nnorth,120\nsouth,80\n",
    TUESDAY: "shop,amount\nnorth,100\nsouth,a lot\n",
}


class NotReady(Exception):
    """The sales of the day are not closed yet."""


@dataclass(frozen=True)
class Sale:
    shop: str
    amount: int


@app.task(retry=Retry.fixed("300ms", max_retries=3, retry_on=[NotReady]))
def extract(day: date, folder: str, ctx: Context) -> str:
    """Fetch the file of the day; what tasks hand on is its path, not its content."""
    if day not in SALES or ctx.attempt == 0:
        say(f"{day}: not ready, attempt {ctx.attempt}")
        raise NotReady(f"the sales of {day} are not closed yet")
    path = Path(folder, f"{day}.csv")
    path.write_text(SALES[day], "utf-8")
    return str(path)


@app.task
def validate(ctx: Context) -> list[Sale]:
    with open(ctx.result_of(extract), encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for number, row in enumerate(rows, start=1):
        if not row["amount"].isdigit():
            raise Final(f"row {number}: {row['amount']!r} is no amount", code="bad_row")
    return [Sale(row["shop"], int(row["amount"])) for row in rows]


@app.task(timeout="10m")
def load(day: date, folder: str, ctx: Context) -> str:
    sales = ctx.result_of(validate)
    totals: dict[str, int] = {}
    for done, sale in enumerate(sales, start=1):
        totals[sale.shop] = totals.get(sale.shop, 0) + sale.amount
        ctx.progress(done, len(sales))
    # Loading again replaces the night: a second attempt does no harm.
    Path(folder, f"{day}.json").write_text(json.dumps(totals), "utf-8")
    return f"{len(sales)} sales loaded"


@app.task
def quarantine(ctx: Context) -> str:
    path = Path(ctx.result_of(extract))
    kept = path.rename(path.with_suffix(".quarantined"))
    return f"{kept.name} waits for somebody to look at it"


@app.task
async def report(day: date, ctx: Context) -> str:
    outcome = "there was nothing to load"
    for branch in (load, quarantine):
        with suppress(NoResult):
            outcome = ctx.result_of(branch)
    return f"{day}: {outcome}"


async def run_night(day: date, folder: str) -> TaskHandle[str]:
    async with app.batch(f"sales of {day}") as batch:
        extracted = batch.add(extract, day, folder)
        validated = batch.add(validate, after=extracted)
        loaded = batch.add(load, day, folder, after=validated)
        quarantined = batch.add(quarantine, after=[(extracted, "success"), (validated, "failure")])
        reported = batch.add(report, day, after=[loaded, quarantined], on="always")
    return reported.handle


async def main(folder: str) -> None:
    async with app, app.worker():
        nights = [await run_night(day, folder) for day in (MONDAY, TUESDAY, WEDNESDAY)]
        for night in nights:
            say(await night.result(timeout=60))


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        os.environ.setdefault("DATABASE_URL", f"sqlite:///{folder}/etl.db")
        asyncio.run(main(folder))

"""The table of a run: medians over the rounds, and their ratios."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.drain.contestants import CONTESTANTS
from bench.drain.measured import Measured, Rate, Work


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    later: int
    contestant: str


@dataclass(slots=True)
class Table:
    rates: defaultdict[Row, list[Rate]] = field(default_factory=lambda: defaultdict(list))
    """Of all rounds, in the order of the first."""

    def add(self, contestant: str, work: Work, measured: Measured) -> None:
        if measured.tasks is not None:
            self.rates[Row(f"{work.tasks:,} no-op", work.later, contestant)].append(measured.tasks)
        if measured.failing is not None:
            self.rates[Row(f"{work.failing:,} fail twice", work.later, contestant)].append(measured.failing)

    def lines(self) -> Iterator[str]:
        yield (
            f"{'what':16} {'later':>9} {'by':17} {'database':10} {'tasks/s':>8} {'lowest':>7} {'highest':>7} "
            f"{'worker us':>9} {'to bare':>7} {'to PgQueuer':>11} {'to none later':>13}"
        )
        for row in sorted(self.rates, key=self._group):
            rates = [rate.tasks for rate in self.rates[row]]
            who = CONTESTANTS[row.contestant]
            bare, pgqueuer = (self._ratio(row, Row(row.what, row.later, to)) for to in ("bare", who.beside))
            alone = self._ratio(row, Row(row.what, 0, row.contestant)) if row.later else "-"
            micros = self._worker_micros(row)
            yield (
                f"{row.what:16} {row.later:9,} {who.name:17} {who.database:10} {statistics.median(rates):8,.0f} "
                f"{min(rates):7,.0f} {max(rates):7,.0f} {micros:>9} {bare:>7} {pgqueuer:>11} {alone:>13}"
            )

    def _group(self, row: Row) -> tuple[int, int]:
        """Rows that are compared stand together."""
        whats = list(dict.fromkeys(other.what for other in self.rates))
        return row.later, whats.index(row.what)

    def _worker_micros(self, row: Row) -> str:
        known = [rate.worker_micros for rate in self.rates[row] if rate.worker_micros is not None]
        return f"{statistics.median(known):,.0f}" if known else "-"

    def _ratio(self, row: Row, to: Row) -> str:
        """Of the medians; there is none where the other one was not measured."""
        return f"{self._median(row) / self._median(to):.2f}" if to in self.rates else "-"

    def _median(self, row: Row) -> float:
        return statistics.median(rate.tasks for rate in self.rates[row])

"""Label values, kept few: each new one is a new time series for as long as the server runs."""

from __future__ import annotations

from typing import Generic, TypeVar

from prometheus_client.metrics import MetricWrapperBase

OTHER = "other"
HIGHEST_ATTEMPT = 10

MetricT = TypeVar("MetricT", bound=MetricWrapperBase)


class KindLabels:
    """Gives the first kinds their own label and all later ones `other`."""

    def __init__(self, limit: int = 100) -> None:
        self._limit = limit
        self._known: set[str] = set()

    def label(self, kind: str) -> str:
        if kind in self._known:
            return kind
        if len(self._known) >= self._limit:
            return OTHER
        self._known.add(kind)
        return kind


def attempt_label(attempt: int) -> str:
    return str(attempt) if attempt <= HIGHEST_ATTEMPT else f"{HIGHEST_ATTEMPT}+"


class Labelled(Generic[MetricT]):
    """A metric with labels that finds each of its series by one look into a dictionary."""

    def __init__(self, metric: MetricT) -> None:
        self._metric = metric
        self._series: dict[tuple[str, ...], MetricT] = {}

    def of(self, *values: str) -> MetricT:
        """The series with these label values, in the order in which the labels were declared."""
        series = self._series.get(values)
        if series is None:
            series = self._series[values] = self._metric.labels(*values)
        return series

    def series(self) -> dict[tuple[str, ...], MetricT]:
        """All series so far, by their label values."""
        return self._series

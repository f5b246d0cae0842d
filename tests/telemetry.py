"""A real SDK of OpenTelemetry that keeps in memory what it is told, for tests."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sayso import OpenTelemetry


class Heard:
    """What one process has told."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider(metric_readers=[self._reader], shutdown_on_exit=False)
        self.telemetry = OpenTelemetry(tracer_provider=self.tracers, meter_provider=self.meters)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span

    def metrics(self) -> dict[str, list[tuple[dict[str, Any], Any]]]:
        """Read all metrics: by name, each of their points with its attributes."""
        data = self._reader.get_metrics_data()
        return {
            metric.name: [
                (dict(point.attributes), point.sum if hasattr(point, "sum") else point.value)
                for point in metric.data.data_points
            ]
            for resource in (() if data is None else data.resource_metrics)
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def total(self, name: str, **attributes: str) -> float:
        """Add up the points of a metric that have these attributes, named without `sayso.`."""
        wanted = {f"sayso.{key}": value for key, value in attributes.items()}.items()
        return sum(n for about, n in self.metrics().get(name, ()) if wanted <= about.items())

    def text(self) -> str:
        """Everything that was told, as text."""
        return "\n".join([*[span.to_json() for span in self.spans], repr(self.metrics())])


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def links_of(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def id_of(span: ReadableSpan) -> int:
    return span.context.span_id

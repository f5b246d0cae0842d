"""Telemetry by way of OpenTelemetry's API. What becomes of it is up to the program's own SDK; where
none is set up, it comes to nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Observation
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from sayso.engine.telemetry import ATTRIBUTES, METRICS, Attributes

log = logging.getLogger("sayso")

NAME = "sayso"
_TRACEPARENT = "traceparent"
_propagator = TraceContextTextMapPropagator()


class OpenTelemetry:
    """Spans and metrics for OpenTelemetry: for its global providers, or for those given."""

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        self._tracer = trace.get_tracer(NAME, tracer_provider=tracer_provider)
        meter = metrics.get_meter(NAME, meter_provider=meter_provider)
        self._shown: Mapping[str, Sequence[tuple[float, Attributes]]] = {}
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        self._has_failed = False
        for name, metric in METRICS.items():
            if metric.kind == "counter":
                counter = meter.create_counter(name, metric.unit, metric.means)
                self._counters[name] = counter
            elif metric.kind == "histogram":
                histogram = meter.create_histogram(name, metric.unit, metric.means)
                self._histograms[name] = histogram
            else:
                # Whoever reads it is told what was last seen: nothing is read from a store for it.
                reads = [partial(self._observe, name)]
                meter.create_observable_gauge(name, reads, metric.unit, metric.means)

    @contextmanager
    def span(
        self,
        name: str,
        attributes: Attributes | None = None,
        *,
        parent: str | None = None,
        links: Iterable[str] = (),
        serves: bool = False,
    ) -> Generator[_Span]:
        """Give a span that is the current one inside."""
        about = _checked(attributes or {})
        started = trace.INVALID_SPAN
        with self._apart():
            started = self._tracer.start_span(
                name,
                context=None if parent is None else _context_of(parent),
                kind=SpanKind.SERVER if serves else SpanKind.INTERNAL,
                attributes=about,
            )
        span = _Span(started)
        for one in links:
            span.link(one)
        try:
            with trace.use_span(
                started,
                # An exception's message may have arguments in it: its type is enough.
                record_exception=False,
                set_status_on_exception=False,
            ):
                yield span
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            span.fail(type(error).__name__)
            raise
        finally:
            with self._apart():
                started.end()

    def trace(self) -> str:
        """Say where the current span is; nothing if there is none."""
        carrier: dict[str, str] = {}
        _propagator.inject(carrier)
        return carrier.get(_TRACEPARENT, "")

    @contextmanager
    def within(self, trace: str) -> Generator[None]:
        """Let what is done inside be of a span of some other process, or of none."""
        token = contexts.attach(_context_of(trace))
        try:
            yield
        finally:
            contexts.detach(token)

    def count(self, name: str, attributes: Attributes | None = None, *, by: int = 1) -> None:
        """Add to a counter."""
        about = _checked(attributes or {})
        with self._apart():
            self._counters[name].add(by, about)

    def measure(self, name: str, value: float, attributes: Attributes) -> None:
        """Add a value to a histogram."""
        about = _checked(attributes)
        with self._apart():
            self._histograms[name].record(value, about)

    def show(self, gauges: Mapping[str, Sequence[tuple[float, Attributes]]]) -> None:
        """Replace what gauges are at: all of them."""
        self._shown = gauges

    @contextmanager
    def _apart(self) -> Generator[None]:
        """Keep to itself what goes wrong in an SDK, in whose processors there is anybody's code: a
        call that has run would be in doubt, and a decision that stands would look refused.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 - nothing is different for being watched.
            if not self._has_failed:
                log.warning("telemetry fails, and that is said once: %s", type(error).__name__)
            self._has_failed = True

    def _observe(self, name: str, _: CallbackOptions) -> list[Observation]:
        return [Observation(value, _checked(about)) for value, about in self._shown.get(name, ())]


class _Span:
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def note(self, attributes: Attributes) -> None:
        self._span.set_attributes(_checked(attributes))

    def name(self, name: str) -> None:
        self._span.update_name(name)

    def link(self, trace: str) -> None:
        found = _span_of(trace)
        if found.is_valid:
            self._span.add_link(found)

    def fail(self, error: str) -> None:
        self._span.set_attribute("error.type", error)
        self._span.set_status(StatusCode.ERROR)


def _checked(attributes: Attributes) -> Attributes:
    assert attributes.keys() <= ATTRIBUTES, f"{attributes.keys() - ATTRIBUTES} may say anything"
    return attributes


def _context_of(traceparent: str) -> Context:
    return _propagator.extract({_TRACEPARENT: traceparent}, Context())


def _span_of(traceparent: str) -> trace.SpanContext:
    return trace.get_current_span(_context_of(traceparent)).get_span_context()

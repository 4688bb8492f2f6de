"""Export the spans of an agent to a run: model calls become nodes and calls of its traces.

pip install 'prime-async[otel]'
python examples/bridge_opentelemetry.py
"""

import json
import sys

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from prime_sync.bridges import RunSpanExporter
from prime_sync.runs import init


def ask(question: str) -> None:
    """Stands for an instrumented client, which makes such spans by itself."""
    with trace.get_tracer("agent").start_as_current_span("chat tiny") as span:
        span.set_attribute("gen_ai.operation.name", "chat")
        span.set_attribute("gen_ai.request.model", "tiny")
        said = [{"role": "user", "content": question}]
        span.set_attribute("gen_ai.input.messages", json.dumps(said))
        span.set_attribute("gen_ai.output.messages", '[{"role": "assistant", "content": "4"}]')
        span.set_attribute("gen_ai.usage.output_tokens", 1)


with init(context="local", model="tiny", environments=["sums"]) as run:
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(RunSpanExporter(run)))
    trace.set_tracer_provider(provider)
    for number in range(5):
        with trace.get_tracer("agent").start_as_current_span("solve") as task:
            task.set_attribute("prime.task", f"sum-{number}")
            ask(f"How much is {number} + {4 - number}?")
    provider.shutdown()  # before the run is finished: the processor holds spans back

sys.exit(0 if run.receipt and run.receipt.counts.delivered == 5 else str(run.receipt))

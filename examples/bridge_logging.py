"""Keep what a program says through `logging` with its run: lines as traces, numbers as metrics.

python examples/bridge_logging.py
"""

import logging
import sys

from prime_sync.bridges import RunLogHandler
from prime_sync.runs import init

log = logging.getLogger("trainer")
log.setLevel(logging.INFO)

with init(context="local", kind="train", model="tiny", environments=["sums"]) as run:
    log.addHandler(RunLogHandler(run))
    log.info("training begins")
    for step in range(10):
        log.info("step done", extra={"step": step, "metrics": {"loss": 1 / (step + 1)}})
    try:
        raise ValueError("no checkpoint to resume from")
    except ValueError:
        log.exception("resuming failed; from scratch")

sys.exit(0 if run.receipt and run.receipt.complete else str(run.receipt))

"""A training of two parameters, for the Trainer of transformers; also a process of its own.

python -m tests.bridges.real.training URL FOLDER: one of several processes, as torchrun starts them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainingArguments

from prime_async.bridges import RunCallback
from tests.bridges.reading import Place

__all__ = ["Line", "trainer"]

DATA = [{"x": torch.tensor([float(n)]), "labels": torch.tensor([2.0 * n + 1])} for n in range(16)]


class Line(torch.nn.Module):
    """Two numbers. After so many steps it raises, if it is told to."""

    def __init__(self, error: BaseException | None = None, after: int = 0) -> None:
        super().__init__()
        self.slope = torch.nn.Parameter(torch.zeros(1))
        self.offset = torch.nn.Parameter(torch.zeros(1))
        self._error = error
        self._left = after

    def forward(self, x: Any = None, labels: Any = None) -> dict[str, Any]:
        """The loss of a batch."""
        self._left -= self.training
        if self._error is not None and self._left < 0:
            raise self._error
        said = self.slope * x + self.offset
        return {"loss": ((said - labels) ** 2).mean(), "logits": said}


def trainer(folder: Path, callback: Any, model: Any = None, **arguments: Any) -> Any:
    """Ten steps, logged every second one, evaluated and saved every fifth."""
    told: dict[str, Any] = {
        "output_dir": str(folder),
        "run_name": "tiny",
        "max_steps": 10,
        "logging_steps": 2,
        "eval_strategy": "steps",
        "eval_steps": 5,
        "save_steps": 5,
        "per_device_train_batch_size": 4,
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
        "hub_token": "hf_SECRET",
    }
    return Trainer(
        model=Line() if model is None else model,
        args=TrainingArguments(**{**told, **arguments}),
        train_dataset=DATA,
        eval_dataset=DATA[:4],
        callbacks=[callback],
    )


def main(url: str, folder: str) -> None:
    """Train in this process, together with the others."""
    with RunCallback(environments=["line"], **Place(url).account) as callback:
        trainer(Path(folder), callback, ddp_backend="gloo").train()
    run: Any = callback.run
    if run is not None:
        run._core.begin_finish("completed", None, {}, 30.0).result(30)
    print("reported", None if run is None else run.id)


if __name__ == "__main__":
    main(*sys.argv[1:])

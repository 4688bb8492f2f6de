"""Fits a line to noisy points by gradient descent, in plain Python: ``train.py --epochs N``."""

import argparse
import json
import random
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=100)
parser.add_argument("--rate", type=float, default=0.5)
arguments = parser.parse_args()

random.seed(0)
points = [(x / 1000, 3 * x / 1000 + 0.5 + random.gauss(0, 0.1)) for x in range(1000)]
slope = offset = 0.0
for epoch in range(1, arguments.epochs + 1):
    errors = [(slope * x + offset - y, x) for x, y in points]
    loss = sum(error**2 for error, _ in errors) / len(points)
    slope -= arguments.rate * 2 * sum(error * x for error, x in errors) / len(points)
    offset -= arguments.rate * 2 * sum(error for error, _ in errors) / len(points)
    print(f"epoch {epoch}: loss {loss:.4f}", flush=True)

model = {"slope": slope, "offset": offset, "loss": loss, "epochs": arguments.epochs}
Path("model.pt").write_text(json.dumps(model))

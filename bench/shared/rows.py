"""What the benches of job traces share: rows `bench,case,seed,policy,metric,value`, and the figures of a run."""

import csv
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

Row = tuple[str, str, int, str, str, float]
HEAD = ("bench", "case", "seed", "policy", "metric", "value")
DATA = Path(__file__).parents[1] / "data"


def figures(times: Sequence[float], name: str) -> dict[str, float]:
    """mean, p50, p99 and p99.9 of `name`, between two values where the quantile lies there."""
    p50, p99, p999 = np.quantile(times, (0.5, 0.99, 0.999))
    figures = {"mean": np.mean(times), "p50": p50, "p99": p99, "p999": p999}
    return {f"{which}_{name}_s": float(value) for which, value in figures.items()}


def write_rows(path: Path | None, rows: Sequence[Row]) -> None:
    if path:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([HEAD, *rows])


def finish(missed: Sequence[str], compared: bool = True) -> int:
    """Tell what is wrong. compared: is anything known of this input? Returns the exit code."""
    well = "every reference is exact and no target was missed" if compared else "nothing is known of this input"
    print(*missed or [well], sep="\n")
    return 1 if missed else 0


def revision() -> str:
    said = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return said.stdout.strip() or "unknown"

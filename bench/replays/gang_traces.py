"""Job traces. Sources and columns: bench/data/SOURCES.md."""

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np

PHILLY_WINDOW_S = 2_592_000, 7_862_340
"""Benchmark part of the Philly trace, October and November 2017; the month before is history."""
VENUS_START_S = 2_678_400
"""August; the month before is history."""


@dataclass(frozen=True)
class TraceJob:
    """A gang job of whole cards, or a job of half a card. predicted_s: by a noisy predictor, `duration_s` if none.

    latest_s: length that nine in ten of such jobs do not exceed.
    """

    row: int
    submit_s: float
    duration_s: float
    gpus: float
    team: str
    predicted_s: float
    latest_s: float = inf


@dataclass(frozen=True)
class MuriJob:
    """work_s: run time alone. overhead_s: lost at each placement."""

    row: int
    submit_s: float
    work_s: float
    gpus: int
    overhead_s: float


def load_philly(folder: Path) -> tuple[dict[str, int], list[TraceJob]]:
    """Return ({team: its nodes, 72 in all}, jobs of the window by submit time)."""
    shares = {row["vc"]: int(row["our_anomaly_nodes"]) for row in _read_rows(folder / "jobs/philly_vc_nodes.csv")}
    jobs = _load_jobs(folder / "jobs/philly_sep_nov.csv.gz", folder / "refs/noisy_predictions_philly.csv.gz")
    first, last = PHILLY_WINDOW_S
    return shares, [job for job in jobs if first <= job.submit_s <= last and job.team in shares]


def load_venus(folder: Path) -> list[TraceJob]:
    jobs = _load_jobs(folder / "jobs/venus_jul_aug.csv.gz", folder / "refs/noisy_predictions_venus.csv.gz")
    return [job for job in jobs if job.submit_s >= VENUS_START_S]


def load_trace_jobs(path: Path) -> list[TraceJob]:
    """Load a trace with columns submit_s, duration_s, gpus, optional vc."""
    return _load_jobs(path, None)


def load_muri(folder: Path, trace: str) -> list[MuriJob]:
    """Load a Muri trace (1, 1_pr, 3, 3_pr); work is scaled by the reference's 1.015."""
    overheads = {
        (row["gpus"], row["model"]): float(row["overhead_s"]) for row in _read_rows(folder / "refs/muri_overhead.csv")
    }
    return [
        MuriJob(
            number,
            int(row["submit_ms"]) / 1000,
            int(row["iterations"]) * float(row["iteration_ms"]) * 1.015 / 1000,
            int(row["gpus"]),
            overheads.get((row["gpus"], row["model"]), 10.0),
        )
        for number, row in enumerate(_read_rows(folder / f"jobs/muri_trace{trace}.csv.gz"))
    ]


def draw_predictions(durations: list[float], seed: int = 6) -> list[float]:
    """Draw predictions with Helios' error distribution (SC'21, `philly_estimate.py`)."""
    dice = np.random.Generator(np.random.PCG64(seed))
    shares = np.cumsum((0.1, 0.4, 0.2, 0.2, 0.1))
    errors = ((0.0, 0.1), (0.1, 0.5), (0.5, 1.0), (1.0, 10.0), (10.0, 100.0))
    predictions = []
    for duration in durations:
        which, where, sign = dice.random(), dice.random(), dice.random()
        low, high = errors[min(int(np.searchsorted(shares, which, side="right")), len(errors) - 1)]
        error = low + (high - low) * where
        said = duration * (1 + error) if sign < 0.5 else duration / (1 + error)
        predictions.append(max(round(said, 1), 1.0))
    return predictions


def _load_jobs(path: Path, predictions: Path | None) -> list[TraceJob]:
    rows = list(_read_rows(path))
    durations = [max(1.0, float(row["duration_s"])) for row in rows]
    if predictions:
        said = {int(row["row"]): float(row["predicted_s"]) for row in _read_rows(predictions)}
    else:
        said = dict(enumerate(draw_predictions(durations)))
    jobs = (
        TraceJob(number, float(row["submit_s"]), duration, int(row["gpus"]), row.get("vc", ""), said[number])
        for number, (row, duration) in enumerate(zip(rows, durations, strict=True))
    )
    return sorted(jobs, key=lambda job: (job.submit_s, job.row))


def _read_rows(path: Path) -> Iterator[dict]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return csv.DictReader(text.decode().splitlines())

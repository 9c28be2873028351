"""Traces of jobs: who asked how many cards when, and for how long. Sources and columns: bench/data/SOURCES.md."""

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PHILLY_WINDOW = 2_592_000, 7_862_340
"""October and November 2017: what of the Philly trace is a benchmark. The month before is its history."""
VENUS_FROM = 2_678_400
"""August, likewise."""


@dataclass(frozen=True)
class TraceJob:
    """A gang job of whole cards that runs to its end. row: its place in the file. predicted_s: what a noisy predictor
    says, an error model and no oracle; equal to `duration_s` where nothing was predicted.
    """

    row: int
    submit_s: float
    duration_s: float
    gpus: int
    team: str
    predicted_s: float


@dataclass(frozen=True)
class MuriJob:
    """work_s: alone on its cards. overhead_s: lost each time it is placed again."""

    row: int
    submit_s: float
    work_s: float
    gpus: int
    overhead_s: float


def load_philly(folder: Path) -> tuple[dict[str, int], list[TraceJob]]:
    """({team: nodes of its own, 72 in all}, the jobs of the window by submit time)."""
    shares = {row["vc"]: int(row["our_anomaly_nodes"]) for row in _rows(folder / "jobs/philly_vc_nodes.csv")}
    jobs = _jobs(folder / "jobs/philly_sep_nov.csv.gz", folder / "refs/noisy_predictions_philly.csv.gz")
    first, last = PHILLY_WINDOW
    return shares, [job for job in jobs if first <= job.submit_s <= last and job.team in shares]


def load_venus(folder: Path) -> list[TraceJob]:
    jobs = _jobs(folder / "jobs/venus_jul_aug.csv.gz", folder / "refs/noisy_predictions_venus.csv.gz")
    return [job for job in jobs if job.submit_s >= VENUS_FROM]


def load_jobs(path: Path) -> list[TraceJob]:
    """A whole trace with the columns submit_s, duration_s, gpus and perhaps vc; predictions are drawn by the rule."""
    return _jobs(path, None)


def load_muri(folder: Path, trace: str) -> list[MuriJob]:
    """trace: 1, 1_pr, 3 or 3_pr, or another that lies beside them. Its work is 1.5 % more than what it says (the
    reference's own factor); who is not in the table of overheads loses 10 s.
    """
    overheads = {
        (row["gpus"], row["model"]): float(row["overhead_s"]) for row in _rows(folder / "refs/muri_overhead.csv")
    }
    return [
        MuriJob(
            number,
            int(row["submit_ms"]) / 1000,
            int(row["iterations"]) * float(row["iteration_ms"]) * 1.015 / 1000,
            int(row["gpus"]),
            overheads.get((row["gpus"], row["model"]), 10.0),
        )
        for number, row in enumerate(_rows(folder / f"jobs/muri_trace{trace}.csv.gz"))
    ]


def draw_predictions(durations: list[float], seed: int = 6) -> list[float]:
    """What a predictor with the errors that Helios reports (SC'21, `philly_estimate.py`) would say, in seconds."""
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


def _jobs(path: Path, predictions: Path | None) -> list[TraceJob]:
    rows = list(_rows(path))
    durations = [max(1.0, float(row["duration_s"])) for row in rows]
    if predictions:
        said = {int(row["row"]): float(row["predicted_s"]) for row in _rows(predictions)}
    else:
        said = dict(enumerate(draw_predictions(durations)))
    jobs = (
        TraceJob(number, float(row["submit_s"]), duration, int(row["gpus"]), row.get("vc", ""), said[number])
        for number, (row, duration) in enumerate(zip(rows, durations, strict=True))
    )
    return sorted(jobs, key=lambda job: (job.submit_s, job.row))


def _rows(path: Path) -> Iterator[dict]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return csv.DictReader(text.decode().splitlines())

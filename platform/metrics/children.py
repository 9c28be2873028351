"""Sums the metrics of a process and its children, such as those of a Celery worker, in files of theirs."""

import atexit
import os
import shutil
from tempfile import mkdtemp

from prometheus_client import values

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Named by prometheus_client."""


def wants_shared() -> bool:
    """Return whether this is a worker that tells its metrics."""
    return os.environ.get("TESSERA_ROLE") == "worker" and bool(os.environ.get("TESSERA_METRICS_LISTEN"))


def share_metrics() -> None:
    """Keep metrics that are made from here on where children add theirs."""
    if FOLDER not in os.environ:
        folder = os.environ[FOLDER] = mkdtemp(prefix="tessera-metrics-")
        atexit.register(_remove, folder, os.getpid())
    values.ValueClass = values.get_value_class()


def is_shared() -> bool:
    return FOLDER in os.environ


def _remove(folder: str, parent: int) -> None:
    if os.getpid() == parent:
        shutil.rmtree(folder, ignore_errors=True)

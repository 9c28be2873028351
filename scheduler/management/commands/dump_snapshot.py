"""Write the scheduler's input as it is now, without names, so that a wrong plan can become a test."""

import json
from dataclasses import asdict
from typing import Any

import numpy as np
from django.core.management.base import BaseCommand

from scheduler.snapshots import load_world


class Command(BaseCommand):
    help = "Dump the scheduler's snapshot as JSON."

    def handle(self, *args: Any, **options: Any) -> None:
        snapshot = load_world().snapshot
        names = [name for name in snapshot.__dataclass_fields__ if not name.endswith("_names")]
        fields = {name: getattr(snapshot, name) for name in names}
        fields["kind_names"] = snapshot.kind_names
        fields["layouts"] = [layout and asdict(layout) for layout in snapshot.layouts]
        fields["typical"] = snapshot.typical and asdict(snapshot.typical)
        fields["waiting"] = [asdict(waiting) for waiting in snapshot.waiting]
        self.stdout.write(json.dumps(fields, default=_plain, indent=1))


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value)} in a snapshot")

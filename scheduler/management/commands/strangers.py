"""List orphans and end those named."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from runtimes.contract.container import ContainerView
from scheduler.reconcile.orphans import load_orphans, stop_orphan
from scheduler.runtime import get_runtime

WITHIN_S = 120.0


class Command(BaseCommand):
    help = "List the containers of this installation that no job knows. Nothing is ended but what --end names."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--end", nargs="+", default=[], metavar="UUID", help="stop these, and forget them")

    def handle(self, *args: Any, **options: Any) -> None:
        runtime = get_runtime()
        there = {view.uuid: view for view in load_orphans(runtime.list_containers())}
        if known := [uuid for uuid in options["end"] if uuid not in there]:
            raise CommandError(f"Not a container that no job knows: {', '.join(known)}. Nothing was ended.")
        if not options["end"]:
            self.stdout.write("\n".join(map(describe, there.values())) or "Every container is known.")
        for uuid in options["end"]:
            if not stop_orphan(runtime, uuid, WITHIN_S):
                raise CommandError(f"{uuid} did not end in {WITHIN_S:.0f} s.")
            self.stdout.write(f"{uuid} has ended and is gone.")


def describe(view: ContainerView) -> str:
    since = f"since {view.started_at:%Y-%m-%d %H:%M:%S %Z}" if view.started_at else "never ran"
    return f"{view.uuid}  {view.phase:<8}  {since}  on {view.node or 'no machine'}"

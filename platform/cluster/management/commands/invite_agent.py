"""Print a one-time enrolment token for a machine's agent."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from cluster.agents import invite_agent
from events.record_and_publish import SYSTEM


class Command(BaseCommand):
    help = "Invite the agent of a machine."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("node", help="its name, as the engine calls it")

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(invite_agent(actor=SYSTEM, node_name=options["node"])[1])

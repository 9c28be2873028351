"""Print a new API token for a person, for scripts on the server."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts.models import User
from accounts.scopes import SCOPES
from accounts.services import create_token


class Command(BaseCommand):
    help = "Make an API token of all scopes for a person."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--name", default="made on the server")
        parser.add_argument("--days", type=int, default=1)

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username__iexact=options["username"]).first()
        if user is None:
            raise CommandError(f"There is no person called {options['username']}.")
        _, secret = create_token(user=user, name=options["name"], scopes=list(SCOPES), days=options["days"])
        self.stdout.write(secret)

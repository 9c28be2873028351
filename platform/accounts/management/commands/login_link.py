"""Print a one-time sign-in link, for a person who forgot the password."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts.models import User
from accounts.services import make_login_link


class Command(BaseCommand):
    help = "Make a one-time sign-in link for a person."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username__iexact=options["username"], suspended_at=None).first()
        if user is None:
            raise CommandError(f"There is no person called {options['username']} who may sign in.")
        self.stdout.write(make_login_link(user=user))

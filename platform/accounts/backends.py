"""Password authentication, refused to suspended people."""

from django.contrib.auth.backends import BaseBackend
from django.http import HttpRequest

from accounts.models import User


class PasswordBackend(BaseBackend):
    def authenticate(
        self, request: HttpRequest | None, username: str = "", password: str = "", **_: object
    ) -> User | None:
        user = User.objects.filter(username__iexact=username).first()
        if user is None:
            User().set_password(password)  # equal time for unknown names
            return None
        return user if user.check_password(password) and user.is_active else None

    def get_user(self, user_id: int) -> User | None:
        return User.objects.filter(pk=user_id, suspended_at__isnull=True).first()

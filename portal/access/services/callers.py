"""Who may call a service: its keys, and API tokens of those to whom its file opens it."""

from dataclasses import dataclass

from accounts.models import ApiToken, User
from accounts.permissions import may
from accounts.services import note_use
from common.errors import NotFound, NotPermitted, NotSignedIn
from common.secrets import digest_secret
from services.keys import PREFIX, find_service_key
from services.models import Service

CALL = "services:call"


@dataclass(frozen=True)
class Caller:
    """A program that may call a service. service: its id. language: the person's.

    key: the id of the service's key, 0 where it came with an API token. per_minute, in_flight: the key's limits.
    """

    service: int
    language: str
    key: int = 0
    key_name: str = ""
    per_minute: int | None = None
    in_flight: int | None = None


def load_caller(team: str, name: str, secret: str) -> Caller:
    """Return who comes with a secret to the address of a service.

    Raises NotSignedIn for no live secret, NotFound for no service that it opens, NotPermitted without the scope.
    """
    service = (
        Service.objects.live().select_related("team", "current", "rollout").filter(team__name=team, name=name).first()
    )
    if secret.startswith(PREFIX):
        key = find_service_key(secret)
        if key is None:
            raise NotSignedIn("bad_token")
        if service is None or key.service_id != service.pk:
            raise NotFound(kind="service", id=f"{team}/{name}")
        return Caller(service.pk, key.user.language, key.pk, key.name, key.per_minute, key.in_flight)
    token = ApiToken.objects.live().select_related("user").filter(digest=digest_secret(secret)).first()
    if token is None:
        raise NotSignedIn("bad_token")
    note_use(token)
    if service is None or not may_call(token.user, service):
        raise NotFound(kind="service", id=f"{team}/{name}")
    if CALL not in token.scopes:
        raise NotPermitted("missing_scope", scope=CALL)
    return Caller(service.pk, token.user.language)


def may_call(user: User, service: Service) -> bool:
    """Whether a person's API tokens open a service, as its file says."""
    access = service.newest.serving.access
    if access == "everybody":
        return user.is_active
    if access == "team":
        return may(user, "service.call", service.team, service.user_id)
    return access == "owner" and service.user_id == user.pk and may(user, "service.call", service.team, service.user_id)

"""Keys by which programs call one service."""

import secrets
from datetime import timedelta

from django.db import transaction

from accounts.credentials import lock_credentials
from accounts.models import ApiToken, User
from accounts.permissions import require
from accounts.services import find_named_errors, note_use
from common.errors import FieldError, InvalidInput, NotFound
from common.secrets import digest_secret
from common.steady_clock import steady_now
from events.record_and_publish import record
from services.models import Service, ServiceKey

PREFIX = "tsk_"
MOST_OF_A_SERVICE = 100
MOST_REQUESTS = 1_000_000


@transaction.atomic
def create_service_key(
    *,
    actor: User,
    service: Service,
    name: str,
    days: int | None = None,
    per_minute: int | None = None,
    in_flight: int | None = None,
    made_by: ApiToken | None = None,
) -> tuple[ServiceKey, str]:
    """Return a new key and its secret, shown only once.

    days: until it expires; None: never by itself. per_minute, in_flight: the most requests; None: as many as come.
    made_by: the API token that asks. Raises InvalidInput, NotPermitted.
    """
    require(actor, "service.change", service.team, service.user_id)
    lock_credentials(actor, made_by)
    if errors := _check(service, name, days):
        raise InvalidInput(errors)
    secret = PREFIX + secrets.token_urlsafe(32)
    made = ServiceKey.objects.create(
        user=actor,
        service=service,
        name=name.strip(),
        prefix=secret[:10],
        digest=digest_secret(secret),
        expires_at=None if days is None else steady_now() + timedelta(days=days),
        made_by=made_by,
        per_minute=per_minute,
        in_flight=in_flight,
    )
    record(service, "key_made", actor=actor.as_actor, params={"name": made.name, "days": days})
    made.refresh_from_db()
    return made, secret


@transaction.atomic
def limit_service_key(*, actor: User, service: Service, key_id: int, **limits: int | None) -> ServiceKey:
    """Change per_minute or in_flight of a key; gateways go by it within seconds. Raises NotFound, NotPermitted."""
    require(actor, "service.change", service.team, service.user_id)
    found = _find_key(service, key_id)
    service.keys.filter(pk=found.pk).update(**limits)
    record(service, "key_limited", actor=actor.as_actor, params={"name": found.name, **limits})
    return _find_key(service, key_id)


@transaction.atomic
def end_service_key(*, actor: User, service: Service, key_id: int) -> None:
    """Delete a key; gateways remember it for some seconds. Raises NotFound, NotPermitted."""
    require(actor, "service.stop", service.team, service.user_id)
    found = _find_key(service, key_id)
    found.delete()
    record(service, "key_ended", actor=actor.as_actor, params={"name": found.name})


def find_service_key(secret: str) -> ServiceKey | None:
    """Return the live key of this secret, and note its use."""
    found = ServiceKey.objects.live().select_related("user").filter(digest=digest_secret(secret)).first()
    if found is not None:
        note_use(found)
    return found


def _find_key(service: Service, key_id: int) -> ServiceKey:
    found = service.keys.filter(pk=key_id).first()
    if found is None:
        raise NotFound(kind="service_key", id=key_id)
    return found


def _check(service: Service, name: str, days: int | None) -> list[FieldError]:
    errors = find_named_errors(name, days)
    if service.keys.count() >= MOST_OF_A_SERVICE:
        errors.append(FieldError("/name", "too_many_service_keys", {"max": MOST_OF_A_SERVICE}))
    return errors

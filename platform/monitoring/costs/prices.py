"""Prices of GPU-hours: which one holds, and how admins keep them. There is no arithmetic but in whole numbers."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time

from django.db import transaction

from accounts.models import User
from accounts.permissions import require
from cluster.models import Gpu
from common.errors import FieldError, InvalidInput, QuotaExceeded
from events.record_and_publish import record, record_change
from monitoring.models import Price
from monitoring.models.prices import MOST_MILLI

MOST_PRICES = 1000


def find_price(prices: Iterable[Price], pool_id: int, model: str, day: date) -> int | None:
    """Return the thousandths that a GPU-hour costs on a day: the newest price of the pool and model, else of the pool,
    of the model, of all; None without one. Pure.
    """
    fitting = (
        price
        for price in prices
        if price.pool_id in (None, pool_id) and price.model in ("", model) and price.begins <= day
    )
    best = max(fitting, key=lambda price: (price.pool_id is not None, price.model != "", price.begins), default=None)
    return None if best is None else best.milli


def list_edges(prices: Iterable[Price], begins: datetime, ends: datetime) -> list[datetime]:
    """Return from when to when the same prices hold within a time: its begin, each change, its end. Pure."""
    changes = {datetime.combine(price.begins, time(), UTC) for price in prices}
    return [begins, *sorted(at for at in changes if begins < at < ends), ends]


@transaction.atomic
def create_price(*, actor: User, price: Price) -> Price:
    """Add a price. Raises InvalidInput, QuotaExceeded."""
    require(actor, "price.change")
    _check(price)
    if (used := Price.objects.count()) >= MOST_PRICES:
        raise QuotaExceeded("user_limit.prices", used=used, limit=MOST_PRICES)
    price.save(force_insert=True)
    record_change(price, None, Price.FIELDS, "made", actor=actor.as_actor)
    return price


@transaction.atomic
def delete_price(*, actor: User, price: Price) -> None:
    """Take a price away, also from reports of the past."""
    require(actor, "price.change")
    record(price, "deleted", actor=actor.as_actor)
    Price.objects.filter(pk=price.pk).delete()


def _check(price: Price) -> None:
    errors = []
    if price.model and price.model not in (known := _list_models()):
        errors.append(FieldError("/model", "unknown_gpu_model", {"got": price.model, "known": known}))
    if not 0 <= price.milli <= MOST_MILLI:
        errors.append(FieldError("/milli", "out_of_range", {"min": 0, "max": MOST_MILLI, "got": price.milli}))
    if Price.objects.filter(pool=price.pool, model=price.model, begins=price.begins).exists():
        errors.append(FieldError("/begins", "price_twice", {"day": price.begins.isoformat()}))
    if errors:
        raise InvalidInput(errors)


def _list_models() -> list[str]:
    """Return the models of all cards that there were ever."""
    return sorted(set(Gpu.objects.values_list("model", flat=True)))

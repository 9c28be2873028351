"""What an hour of a card costs."""

from django.core.validators import MaxValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from cluster.models import Pool
from events.models import OfNoTeam

MOST_MILLI = 1_000_000_000
"""A million units for an hour of one card."""


class Price(OfNoTeam, models.Model):
    """What a GPU-hour costs from a day on, 00:00 UTC, until a later price of the same pool and model.

    pool: None for all pools. model: "" for all models. milli: thousandths of the unit of TESSERA_CURRENCY.
    """

    KIND = "price"
    FIELDS = ("pool_id", "model", "milli")

    pool = models.ForeignKey(
        Pool,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
        verbose_name=_("pool"),
        help_text=_("Empty: all pools without a price of their own."),
    )
    model = models.CharField(
        _("GPU model"),
        max_length=64,
        blank=True,
        help_text=_("As the cards name it, for example H100-80GB. Empty: all models without a price of their own."),
    )
    begins = models.DateField(_("from"), help_text=_("The first day, which begins at 00:00 UTC."))
    milli = models.PositiveBigIntegerField(_("price of a GPU-hour"), validators=[MaxValueValidator(MOST_MILLI)])

    class Meta:
        verbose_name, verbose_name_plural = _("price"), _("prices")
        constraints = [
            models.UniqueConstraint(fields=["pool", "model", "begins"], name="one_price_a_day", nulls_distinct=False)
        ]
        ordering = ["pool__name", "model", "-begins"]

    def __str__(self) -> str:
        return f"{self.pool.name if self.pool else '*'} {self.model or '*'} {self.begins}"

    @property
    def public_id(self) -> str:
        return f"price-{self.pk}"

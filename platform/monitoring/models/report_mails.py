"""Reports that people asked to get by mail."""

from django.core.validators import MaxValueValidator
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from cluster.models import check_zone


class Rhythm(models.TextChoices):
    WEEKLY = "weekly", _("each week")
    MONTHLY = "monthly", _("each month")


class ReportMail(models.Model):
    """A report for one person, of what they may see when it is sent.

    report: its name in addresses. by: what it is summed by. hour, zone: when it is sent, at the first such hour once
    the week or month (UTC) is over. next_at: that moment.
    """

    KIND = "report_mail"

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="report_mails")
    report = models.CharField(max_length=20)
    by = models.CharField(max_length=20)
    rhythm = models.CharField(max_length=7, choices=Rhythm.choices, default=Rhythm.WEEKLY)
    hour = models.PositiveSmallIntegerField(default=7, validators=[MaxValueValidator(23)])
    zone = models.CharField(max_length=64, default="UTC", validators=[check_zone])
    created_at = models.DateTimeField(db_default=Now())
    next_at = models.DateTimeField()

    class Meta:
        ordering = ["pk"]
        indexes = [models.Index(fields=["next_at"], name="report_mails_due")]
        constraints = [
            models.UniqueConstraint(fields=["user", "report", "by", "rhythm"], name="one_report_mail"),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"report-mail-{self.pk}"

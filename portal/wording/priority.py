"""What high priority costs, in a sentence."""

from django.utils.translation import gettext as _

from cluster.models import HighPriority
from jobs.pricing.price import Price, show_hours
from portal.wording.time_of_day import name_moment


def describe_price(price: Price) -> str:
    if price.budget:
        params = {name: show_hours(getattr(price.budget, name)) for name in ("left", "total", "ran", "asked")}
        params["when"] = name_moment(price.budget.refills_at)
        return (
            _(
                "High priority: %(left)s of %(total)s GPU hours are left this week (%(ran)s used, %(asked)s asked for "
                "by jobs that wait or run). Refilled on %(when)s."
            )
            % params
        )
    if price.kind == HighPriority.FREE:
        return _("High priority costs nothing.")
    if price.leads:
        return _("High priority needs the consent of a lead: %(leads)s.") % {"leads": ", ".join(price.leads)}
    return _("High priority needs the consent of an administrator, as the team has no lead.")

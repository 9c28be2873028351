"""States of a service, derived from its replicas."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class ServiceState(models.TextChoices):
    ASLEEP = "asleep", _("Asleep")
    WAKING = "waking", _("Waking")
    UP = "up", _("Up")
    UPDATING = "updating", _("Updating")
    FAILING = "failing", _("Failing")
    STOPPED = "stopped", _("Stopped")


def derive_state(*, stopped: bool, failed: bool, rollout: bool, ready: int, replicas: int) -> ServiceState:
    """Return a service's state. failed: of the current revision. ready, replicas: how many, without draining ones."""
    if stopped:
        return ServiceState.STOPPED
    if failed and not ready:
        return ServiceState.FAILING
    if rollout:
        return ServiceState.UPDATING
    if ready:
        return ServiceState.UP
    return ServiceState.WAKING if replicas else ServiceState.ASLEEP

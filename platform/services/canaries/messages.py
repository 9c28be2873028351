"""Why a canary went back, as a sentence."""

from collections.abc import Mapping
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from common.error_messages import fill_gaps

BREACHES: dict[str, str | Promise] = {
    "errors": gettext_lazy("%(got)s%% of its %(requests)s requests failed, more than %(limit)s%%."),
    "p95": gettext_lazy("The p95 of its %(requests)s requests was %(got)s ms, more than %(limit)s ms."),
}


def describe_breach(params: Mapping[str, Any]) -> str:
    """Return the sentence. params: of a breach (services.canaries.judging), as it was stored."""
    words = fill_gaps(
        {name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in params.items()}
    )
    return str(BREACHES.get(str(params.get("kind")), "")) % words

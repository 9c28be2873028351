"""Tags for icons, chips, copy buttons and times. {% load ui %}. Examples: static/css/components.css."""

from dataclasses import dataclass
from datetime import datetime
from functools import cache

from django import template
from django.template.loader_tags import BLOCK_CONTEXT_KEY
from django.templatetags.static import static
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from portal.wording.time_of_day import clock, name_moment

register = template.Library()


@dataclass(frozen=True)
class Tone:
    """A state's look: `tone` is a colour of tokens.css, `icon` a symbol of vendor/icons.svg."""

    tone: str
    icon: str
    turns: bool = False


# Of jobs, tasks and nodes; the words are the models'.
STATE_TONES = {
    "QUEUED": Tone("wait", "hourglass"),
    "PENDING": Tone("wait", "hourglass"),
    "ASSIGNED": Tone("next", "map-pin"),
    "STARTING": Tone("work", "loader-2", turns=True),
    "RUNNING": Tone("work", "player-play"),
    "STOPPING": Tone("next", "player-stop"),
    "LOST": Tone("stale", "question-mark"),
    "STOPPED": Tone("done", "player-stop"),
    "SUCCEEDED": Tone("done", "check"),
    "FAILED": Tone("fault", "alert-circle"),
    "CANCELLED": Tone("done", "ban"),
    "READY": Tone("done", "circle-check"),
    "CORDONED": Tone("next", "tools"),
    "DRAINING": Tone("next", "logout"),
    "SUSPECT": Tone("idle", "alert-triangle"),
    "NOT_READY": Tone("fault", "plug-connected-x"),
}
UNKNOWN = Tone("stale", "question-mark")


@register.simple_tag
def learn_more(page: str, anchor: str) -> SafeString:
    """Render a link to an entry of the documents' reference, as {% learn_more "errors" code %}; "" without anchor."""
    if not anchor:
        return SafeString()
    address = reverse("help", kwargs={"page": f"reference/{page}/"})
    return format_html('<a class="learn-more" href="{}#{}">{}</a>', address, anchor, _("Learn more"))


@cache
def sprite() -> str:
    return static("vendor/icons.svg")


@register.simple_tag
def icon(name: str, classes: str = "", label: str = "") -> SafeString:
    """Render an icon. Without `label` it is decoration beside a word."""
    if label:
        return format_html(
            '<svg class="icon {}" role="img" aria-label="{}"><use href="{}#{}"/></svg>', classes, label, sprite(), name
        )
    return format_html('<svg class="icon {}" aria-hidden="true"><use href="{}#{}"/></svg>', classes, sprite(), name)


@register.simple_tag
def chip(tone: str, icon_name: str, words: str, title: str = "") -> SafeString:
    """Render a chip. tone: work idle next fault stale wait done sim."""
    return format_html('<span class="chip chip-{}" title="{}">{}{}</span>', tone, title, icon(icon_name), words)


@register.simple_tag
def state_chip(row: object) -> SafeString:
    """Render the state of a job, task or node."""
    return state_word_chip(row.state, row.get_state_display())  # type: ignore[attr-defined]


@register.simple_tag
def state_word_chip(state: str, words: str) -> SafeString:
    """Render a state known by its values only (rows of other teams)."""
    look = STATE_TONES.get(str(state).upper(), UNKNOWN)
    picture = icon(look.icon, "spin" if look.turns else "")
    return format_html('<span class="chip chip-{}">{}{}</span>', look.tone, picture, words)


@register.simple_tag
def simulated() -> SafeString:
    return chip("sim", "flask", _("Simulated"), _("This card is simulated: there is no real GPU behind it."))


@register.simple_tag
def copy_button(text: object, label: str = "") -> SafeString:
    return format_html(
        '<button type="button" class="copy" data-copy="{}" aria-label="{}">{}{}</button>',
        text,
        label or _("Copy"),
        icon("copy", "when-not"),
        icon("check", "when-copied"),
    )


@register.simple_tag(takes_context=True)
def block_again(context: template.Context, name: str) -> str:
    """Render block `name` again: a title stands in tab and top bar."""
    blocks = context.render_context.get(BLOCK_CONTEXT_KEY)
    block = blocks.get_block(name) if blocks else None
    return block.render(context) if block else ""


@register.simple_tag
def ago(moment: datetime | None) -> SafeString | str:
    """Render how long ago, kept current by static/js/ago.js."""
    return _time(moment, "ago")


register.filter("clock", clock)
register.filter("moment", name_moment)


@register.simple_tag
def ticking(since: datetime | None) -> SafeString | str:
    """Render a time counting up: 0:41, 2:03:10."""
    return _time(since, "ticks")


def _time(moment: datetime | None, kind: str) -> SafeString | str:
    if moment is None:
        return "–"
    local = timezone.localtime(moment)
    full = date_format(local, "DATETIME_FORMAT")
    return format_html('<time datetime="{}" data-{} title="{}">{}</time>', moment.isoformat(), kind, full, full)

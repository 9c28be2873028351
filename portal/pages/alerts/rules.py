"""The console's pages of alert rules: the list with what fires now, and the form of one with a back-test."""

from dataclasses import dataclass
from functools import partial

from django import forms
from django.contrib import messages
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.permissions import require
from monitoring.alerts.backtest import Backtest, backtest_rule
from monitoring.alerts.catalogue import METRICS
from monitoring.alerts.round import ship_rules
from monitoring.alerts.services import KEPT_FIELDS, LOUD, change_rule, delete_rule, find_rule, save_rule
from monitoring.models import Alert, AlertRule, Audience, Severity
from portal.forms import save
from portal.pages.alerts.view_model import SEVERITY_CHIPS
from portal.pages.console.audit import list_history
from portal.pages.console.forms import CheckedBySaving, begin_labels_large
from portal.pages.console.page import for_staff, person_of, show
from portal.wording.monitoring.alerts import describe_condition

MOST_LINES = 12
DAYS = 7


class RuleForm(CheckedBySaving):
    """A rule that ships keeps what it looks at."""

    audience = forms.MultipleChoiceField(
        label=gettext_lazy("who is told"), choices=Audience.choices, widget=forms.CheckboxSelectMultiple
    )

    class Meta:
        model = AlertRule
        fields = [name.removesuffix("_id") for name in KEPT_FIELDS]
        widgets = {
            "metric": forms.TextInput(attrs={"list": "metrics", "spellcheck": "false", "autocomplete": "off"}),
            "threshold": forms.NumberInput(attrs={"step": "any"}),
        }
        help_texts = {
            "name": gettext_lazy("Of a rule that ships: empty for the name that it has in each language."),
            "metric": gettext_lazy("Of cards and machines also check:NAME, a health check: 1 warns, 2 fails."),
            "threshold": gettext_lazy("Of a value that is yes or no: 1 is yes."),
            "action": gettext_lazy(
                "After owners and administrators were told, on two machines, cards or jobs and a tenth of a pool’s "
                "cards an hour at most; beyond that it asks. A job is stopped 30 minutes after the warning reached its "
                "owner, unless the alert ends or is acknowledged before."
            ),
        }

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        begin_labels_large(self)
        self.fields["audience"].widget.attrs["class"] = "form-check-input"
        self.fields["pool"].empty_label = _("any pool")  # type: ignore[attr-defined]
        for name in ("subject", "metric"):
            self.fields[name].disabled = bool(self.instance.code)


@dataclass(frozen=True)
class Line:
    """A rule in words. fires: how many alerts of it fire now."""

    row: AlertRule
    fires: int

    @property
    def condition(self) -> str:
        return describe_condition(self.row)

    @property
    def chip(self) -> tuple[str, str, str]:
        """Return (tone, icon, words)."""
        severity = Severity(self.row.severity)
        return *SEVERITY_CHIPS[severity], str(severity.label)

    @property
    def told(self) -> str:
        return _(", ").join(str(Audience(one).label) for one in self.row.audience)


@require_safe
@for_staff
def show_rules(request: HttpRequest) -> HttpResponse:
    """List the rules: one's own first, then those that ship."""
    lines = list_lines()
    context = {
        "groups": [
            (_("Own rules"), "own", [line for line in lines if not line.row.code]),
            (_("Rules that ship"), "shipped", [line for line in lines if line.row.code]),
        ],
        "history": list_history(MOST_LINES, kind=AlertRule.KIND),
        "answer": _answer(lines),
    }
    return show(request, "console/alert_rules.html", context, current="console_alert_rules")


@require_http_methods(["GET", "POST"])
@for_staff
def new_rule(request: HttpRequest) -> HttpResponse:
    require(person_of(request), "alert_rule.change")
    return edit(request, RuleForm(request.POST or None, initial={"audience": [Audience.ADMIN]}))


@require_http_methods(["GET", "POST"])
@for_staff
def change(request: HttpRequest, rule_id: int) -> HttpResponse:
    require(person_of(request), "alert_rule.change")
    return edit(request, RuleForm(request.POST or None, instance=find_rule(rule_id)))


@require_POST
@for_staff
def switch(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Switch a rule on, or off for any other `to`; what fires by it then ends."""
    rule = find_rule(rule_id)
    enabled = request.POST.get("to") == "on"
    save_rule(actor=person_of(request), rule=change_rule(rule, {"enabled": enabled}))
    words = _("%(rule)s is switched on.") if enabled else _("%(rule)s is switched off. What fires by it ends.")
    messages.success(request, words % {"rule": rule})
    return redirect("console_alert_rules")


@require_POST
@for_staff
def remove(request: HttpRequest, rule_id: int) -> HttpResponse:
    rule = find_rule(rule_id)
    name = str(rule)
    delete_rule(actor=person_of(request), rule=rule)
    messages.success(request, _("%(rule)s is deleted.") % {"rule": name})
    return redirect("console_alert_rules")


def edit(request: HttpRequest, form: RuleForm) -> HttpResponse:
    """Show the form; say how often the rule would have fired, or save it."""
    actor, found, name = person_of(request), None, str(form.instance) if form.instance.pk else ""
    if "preview" in request.POST:
        found = save(form, partial(backtest_rule, form.instance, DAYS))
    elif save(form, lambda: save_rule(actor=actor, rule=form.instance)):
        messages.success(request, _("The rule is saved. It holds within 15 seconds."))
        return redirect("console_alert_rules")
    context = {
        "form": form,
        "name": name,
        "audience": form["audience"],
        "metrics": list_metrics(),
        "found": found,
        "told": describe_backtest(found) if found else [],
    }
    status = 400 if form.errors else 200
    return show(request, "console/alert_rule.html", context, current="console_alert_rules", status=status)


def list_lines() -> list[Line]:
    ship_rules()
    counts = Alert.objects.filter(state__in=LOUD).order_by().values_list("rule").annotate(Count("pk"))
    fires = dict(counts)
    return [Line(rule, fires.get(rule.pk, 0)) for rule in AlertRule.objects.select_related("pool")]


def list_metrics() -> list[tuple[str, str]]:
    """Return the values that rules can look at, each with its words and of what it is."""
    found: dict[str, list[str]] = {}
    words: dict[str, str] = {}
    for subject, metrics in METRICS.items():
        for name, metric in metrics.items():
            found.setdefault(name, []).append(str(subject.label))
            words.setdefault(name, str(metric.words))
    return [(name, f"{words[name]} ({', '.join(subjects)})") for name, subjects in sorted(found.items())]


def describe_backtest(found: Backtest) -> list[str]:
    """Say how often a rule would have fired, and how much of that time is known."""
    if not found.subjects:
        return [_("Nothing is known of that time, so nobody can tell.")]
    times = ngettext("It would have fired %(n)s time", "It would have fired %(n)s times", found.fired)
    people = ngettext("for %(n)s person", "for %(n)s people", found.people) % {"n": found.people}
    said = f"{times % {'n': found.fired}}, {people}." if found.fired else _("It would not have fired.")
    known = _("Of %(subjects)s subjects, known for %(percent)s %% of that time. What was not known fires nothing.")
    told = [said, known % {"subjects": found.subjects, "percent": round(100 * found.known)}]
    return [*told, _("%(n)s more were left out.") % {"n": found.left_out}] if found.left_out else told


def _answer(lines: list[Line]) -> str:
    on = sum(line.row.enabled for line in lines)
    fires = sum(line.fires > 0 for line in lines)
    words = _("%(on)s of %(all)s rules are switched on") % {"on": on, "all": len(lines)}
    if not fires:
        return _("%(words)s, and none fires.") % {"words": words}
    more = ngettext("%(n)s fires now", "%(n)s fire now", fires) % {"n": fires}
    return f"{words}, {more}."

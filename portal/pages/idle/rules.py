"""The console's pages of idle rules: the list, and the form of one with what it would have done."""

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.permissions import require
from monitoring.idle.preview import Preview, preview_rule
from monitoring.idle.rules import DEFAULTS, delete_rule, find_saved_rule, list_rules, save_rule
from monitoring.models import IdleRule
from portal.forms import save
from portal.pages.console.audit import list_history
from portal.pages.console.forms import CheckedBySaving, begin_labels_large
from portal.pages.console.page import for_staff, person_of, show
from portal.pages.idle.view_model import RuleLine, describe_rule, list_exempt
from portal.wording.monitoring.idle import name_kind

MOST_LINES = 12
MINUTES = ("note_min", "remind_min", "warn_min", "act_min")


class RuleForm(CheckedBySaving):
    """A saved rule keeps its pool and kind, by which it is found."""

    class Meta:
        model = IdleRule
        fields = ("pool", "kind", *IdleRule.FIELDS)
        widgets = {name: forms.NumberInput(attrs={"inputmode": "numeric"}) for name in MINUTES}
        help_texts = {
            "remind_min": gettext_lazy("Empty: none. Of a job, to the leads, too."),
            "warn_min": gettext_lazy("Empty: none. Needed before something is done."),
            "act_min": gettext_lazy("Empty: nothing is done."),
        }

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        begin_labels_large(self)
        self.fields["kind"].choices = [(kind, name_kind(kind)) for kind in IdleRule.KINDS]  # type: ignore[attr-defined]
        self.fields["pool"].empty_label = _("all pools without a rule of their own")  # type: ignore[attr-defined]
        for name in ("pool", "kind"):
            self.fields[name].disabled = self.instance.pk is not None

    def clean(self) -> dict:
        data = super().clean() or self.cleaned_data
        pool, kind = data.get("pool"), data.get("kind")
        if self.instance.pk is None and kind and IdleRule.objects.filter(pool=pool, kind=kind).exists():
            self.add_error("pool", _("There is such a rule already. Change that one, or choose another pool."))
        return data


@require_safe
@for_staff
def show_rules(request: HttpRequest) -> HttpResponse:
    """List the rules, what is exempt of them, and what was changed."""
    lines = [build_line(rule) for rule in list_rules()]
    context = {
        "lines": lines,
        "exemptions": list_exempt(person_of(request)),
        "history": list_history(MOST_LINES, kind=IdleRule.KIND),
        "answer": _answer(lines),
    }
    return show(request, "console/idle_rules.html", context, current="console_idle_rules")


@require_http_methods(["GET", "POST"])
@for_staff
def new_rule(request: HttpRequest) -> HttpResponse:
    """Make a rule. ?kind= begins with the defaults of this kind."""
    require(person_of(request), "idle.rule")
    kind = request.GET.get("kind", "")
    kind = kind if kind in DEFAULTS else IdleRule.KINDS[0]
    return edit(request, RuleForm(request.POST or None, initial={"kind": kind, **DEFAULTS[kind]}))


@require_http_methods(["GET", "POST"])
@for_staff
def change_rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    require(person_of(request), "idle.rule")
    return edit(request, RuleForm(request.POST or None, instance=find_saved_rule(rule_id)))


@require_POST
@for_staff
def remove_rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    line = build_line(find_saved_rule(rule_id))
    delete_rule(actor=person_of(request), rule=line.row)
    messages.success(request, _("The rule of %(name)s is deleted.") % {"name": line.name})
    return redirect("console_idle_rules")


def edit(request: HttpRequest, form: RuleForm) -> HttpResponse:
    """Show the form; say what the rule would have done, or save it."""
    actor, found, saved = person_of(request), None, find_name(form.instance)
    if "preview" in request.POST:
        found = save(form, lambda: preview_rule(form.instance, days=1, now=timezone.now()))
    elif save(form, lambda: save_rule(actor=actor, rule=form.instance)):
        messages.success(request, _("The rule is saved. What runs begins its steps anew."))
        return redirect("console_idle_rules")
    context = {"form": form, "name": saved, "found": found, "told": describe_preview(found) if found else []}
    status = 400 if form.errors else 200
    return show(request, "console/idle_rule.html", context, current="console_idle_rules", status=status)


def build_line(rule: IdleRule) -> RuleLine:
    return describe_rule(rule, rule.pool.name if rule.pool else _("all other pools"))


def find_name(rule: IdleRule) -> str:
    """Return what a saved rule is of; "" for a new one."""
    return build_line(rule).name if rule.pk else ""


def describe_preview(found: Preview) -> list[str]:
    """Say what a rule would have done."""
    looked_at = ngettext(
        "%(n)s job that held cards was looked at.", "%(n)s jobs that held cards were looked at.", found.looked_at
    )
    acts = ngettext("It would have acted on %(n)s of them", "It would have acted on %(n)s of them", found.acts)
    people = ngettext("of %(n)s person", "of %(n)s people", found.people) % {"n": found.people}
    said = [looked_at % {"n": found.looked_at}]
    if found.told and not found.acts:
        said.append(_("It would have done nothing but tell."))
    elif found.acts:
        said.append(f"{acts % {'n': found.acts}}, {people}.")
        said.append(_("Returned: %(hours)s GPU hours.") % {"hours": found.gpu_hours})
        again = ngettext(
            "%(n)s worked again within 15 minutes.", "%(n)s worked again within 15 minutes.", found.busy_again
        )
        said.append(again % {"n": found.busy_again})
    if not found.complete:
        said.append(_("Only the newest jobs were looked at."))
    return said


def _answer(lines: list[RuleLine]) -> str:
    own = sum(line.row.pk is not None for line in lines)
    if not own:
        return _("The rules that ship hold in all pools.")
    return ngettext("%(n)s rule is set.", "%(n)s rules are set.", own) % {"n": own}

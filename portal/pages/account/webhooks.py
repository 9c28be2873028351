"""Settings of webhooks."""

from typing import cast

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from accounts.models import Team, TeamRole, User
from common.errors import Conflict, InvalidInput, QuotaExceeded
from common.rates import check_rate
from common.safe_http import MAX_URL
from common.text import MAX_NAME
from portal.forms import bind
from portal.pages.account.webhook_view import TOPIC_WORDS, WebhookView, view_deliveries, view_webhooks
from portal.pages.request_guards import signed_in
from portal.partial import render_page
from portal.wording.errors import describe_error
from webhooks.models import Format, Webhook
from webhooks.services import (
    MOST_SECRET,
    change_secret,
    change_webhook,
    create_webhook,
    delete_webhook,
    find_delivery,
    find_webhook,
    redeliver,
    try_webhook,
    webhooks_of,
)

GET_POST = ["GET", "HEAD", "POST"]


class WebhookForm(forms.Form):
    name = forms.CharField(
        label=gettext_lazy("Name"), max_length=MAX_NAME, widget=forms.TextInput(attrs={"autocomplete": "off"})
    )
    url = forms.CharField(
        label=gettext_lazy("Address"),
        max_length=MAX_URL,
        help_text=gettext_lazy("Each event is sent there as a signed POST request, until it answers 2xx."),
        widget=forms.URLInput(attrs={"placeholder": "https://example.com/hook", "spellcheck": "false"}),
    )
    format = forms.ChoiceField(
        label=gettext_lazy("What it reads"),
        choices=Format.choices,
        required=False,
        help_text=gettext_lazy("An Alertmanager is sent alerts alone."),
    )
    chat_secret = forms.CharField(
        label=gettext_lazy("Secret of the bot"),
        max_length=MOST_SECRET,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=gettext_lazy("Only for DingTalk and Feishu, where they show one. Kept encrypted, never shown."),
    )
    topics = forms.MultipleChoiceField(
        label=gettext_lazy("Events"), choices=list(TOPIC_WORDS.items()), required=False,
        widget=forms.CheckboxSelectMultiple,
    )  # fmt: skip

    def clean_format(self) -> str:
        return self.cleaned_data["format"] or Format.CLOUDEVENTS

    def __init__(self, *args, topics: tuple[str, ...] = (), **named):
        """Offer current topics too, even unknown ones."""
        super().__init__(*args, **named)
        others = [(topic, topic) for topic in topics if topic not in TOPIC_WORDS]
        cast(forms.MultipleChoiceField, self.fields["topics"]).choices = [*TOPIC_WORDS.items(), *others]


class NewWebhookForm(WebhookForm):
    """Asks for a team if the user leads one."""

    team = forms.ModelChoiceField(
        Team.objects.none(),
        label=gettext_lazy("Whose events"),
        required=False,
        empty_label=gettext_lazy("Mine"),
        help_text=gettext_lazy("For a team that you lead: events of its jobs and its quota."),
    )

    def __init__(self, *args, user: User, **named):
        super().__init__(*args, **named)
        led = Team.objects.filter(memberships__user=user, memberships__role=TeamRole.LEAD)
        cast(forms.ModelChoiceField, self.fields["team"]).queryset = led
        if not led.exists():
            del self.fields["team"]


@never_cache
@signed_in
@require_http_methods(GET_POST)
def list_webhooks(request: HttpRequest) -> HttpResponse:
    """List webhooks or create one, whose secret is shown once."""
    user = cast(User, request.user)
    form, made, secret = NewWebhookForm(request.POST or None, user=user), None, ""
    if request.method == "POST" and form.is_valid():
        try:
            made, secret = create_webhook(actor=user, **{"team": None, **form.cleaned_data})
            form = NewWebhookForm(user=user)
            if made.format != Format.CLOUDEVENTS:  # nothing is signed with it
                secret = ""
                messages.success(request, _("The webhook “%(name)s” is ready.") % {"name": made.name})
        except (InvalidInput, QuotaExceeded) as error:
            bind(form, error)
    context = {"form": form, "made": made, "secret": secret, "webhooks": view_webhooks(webhooks_of(user))}
    return render(request, "account/webhooks.html", context, status=400 if _is_refused(request, made) else 200)


@never_cache
@signed_in
@require_http_methods(GET_POST)
def show_webhook(request: HttpRequest, webhook_id: int) -> HttpResponse:
    row = find_webhook(cast(User, request.user), webhook_id)
    form = _form_of(row, request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        try:
            change_webhook(actor=cast(User, request.user), webhook=row, **form.cleaned_data)
        except InvalidInput as error:
            bind(form, error)
        else:
            messages.success(request, _("The webhook is updated."))
            return redirect("webhook", webhook_id)
    return _show(request, row, form, status=400 if form.is_bound else 200)


@signed_in
@require_POST
def test(request: HttpRequest, webhook_id: int) -> HttpResponse:
    user = cast(User, request.user)
    webhook = find_webhook(user, webhook_id)
    _count_sends(user)
    try:
        try_webhook(actor=user, webhook=webhook)
    except Conflict as off:
        messages.error(request, describe_error(off))
    return redirect("webhook", webhook_id)


@signed_in
@require_POST
def switch(request: HttpRequest, webhook_id: int) -> HttpResponse:
    """Enable the webhook by `enabled`, else pause it and drop what waits."""
    user = cast(User, request.user)
    change_webhook(actor=user, webhook=find_webhook(user, webhook_id), enabled="enabled" in request.POST)
    return redirect("webhook", webhook_id)


@never_cache
@signed_in
@require_POST
def new_secret(request: HttpRequest, webhook_id: int) -> HttpResponse:
    """Replace the secret and show it once."""
    user = cast(User, request.user)
    row = find_webhook(user, webhook_id)
    secret = change_secret(actor=user, webhook=row)
    return _show(request, row, _form_of(row), secret=secret)


@signed_in
@require_POST
def delete(request: HttpRequest, webhook_id: int) -> HttpResponse:
    user = cast(User, request.user)
    row = find_webhook(user, webhook_id)
    delete_webhook(actor=user, webhook=row)
    messages.success(request, _("The webhook “%(name)s” is deleted.") % {"name": row.name})
    return redirect("webhooks")


@signed_in
@require_POST
def send_again(request: HttpRequest, webhook_id: int, delivery_id: int) -> HttpResponse:
    user = cast(User, request.user)
    delivery = find_delivery(user, webhook_id, delivery_id)
    _count_sends(user)
    redeliver(actor=user, delivery=delivery)
    return redirect("webhook", webhook_id)


def _show(request: HttpRequest, row: Webhook, form: WebhookForm, secret: str = "", status: int = 200) -> HttpResponse:
    deliveries = view_deliveries(row.deliveries.all())
    context = {
        "view": WebhookView(row, deliveries[0] if deliveries else None),
        "deliveries": deliveries,
        "is_soon": any(one.is_soon for one in deliveries),
        "form": form,
        "secret": secret,
    }
    return render_page(request, "account/webhook.html", context, fragment="account/_webhook.html", status=status)


def _form_of(row: Webhook, data: object = None) -> WebhookForm:
    now = {"name": row.name, "url": row.url, "topics": row.topics, "format": row.format}
    return WebhookForm(data, initial=now, topics=tuple(row.topics))


def _is_refused(request: HttpRequest, made: Webhook | None) -> bool:
    return request.method == "POST" and made is None


def _count_sends(user: User) -> None:
    check_rate("webhook sends", user.username, limit=60, per_s=60)

"""Admin pages of prices."""

from django import forms
from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from cluster.models import Gpu
from monitoring.costs.prices import create_price, delete_price
from monitoring.models import Price
from portal.console.fields import cards_text, money
from portal.console.machines import KeptAdmin
from portal.console.quotas import ServiceForm


class PriceForm(ServiceForm):
    milli = money(
        label=gettext_lazy("price of a GPU-hour"), help_text=gettext_lazy("For example 1.25. A slice costs its part.")
    )

    class Meta:
        model = Price
        fields = ("pool", "model", "begins", "milli")
        widgets = {"begins": forms.DateInput(attrs={"type": "date"})}

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        if "model" in self.fields:  # it has none where it is only read
            self.fields["milli"].required = True
            self.fields["model"].widget = forms.Select(choices=_list_models())

    def store(self, row: Price) -> None:
        create_price(actor=self.actor, price=row)


class PriceAdmin(KeptAdmin):
    """Prices are added and deleted, not changed: a later one takes the place of an earlier one."""

    form = PriceForm
    list_display = ("__str__", "costs")
    list_select_related = ("pool",)

    def get_fields(self, request: HttpRequest, obj: Price | None = None) -> tuple[str, ...]:
        return PriceForm.Meta.fields if obj is None else ("pool", "model", "begins", "costs")

    def get_form(self, request: HttpRequest, *args, **named):
        form = super().get_form(request, *args, **named)
        return type(form.__name__, (form,), {"actor": request.user})

    def has_change_permission(self, request: HttpRequest, obj: Price | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Price | None = None) -> bool:
        return request.user.is_admin

    def save_model(self, request: HttpRequest, obj: Price, form: PriceForm, change: bool) -> None:
        form.store(obj)

    def delete_model(self, request: HttpRequest, obj: Price) -> None:
        delete_price(actor=request.user, price=obj)

    def delete_queryset(self, request: HttpRequest, queryset) -> None:
        for row in queryset:
            delete_price(actor=request.user, price=row)

    @admin.display(description=gettext_lazy("price of a GPU-hour"))
    def costs(self, price: Price) -> str:
        return f"{cards_text(price.milli)} {settings.TESSERA_CURRENCY}".strip()


def _list_models() -> list[tuple[str, str]]:
    names = sorted(set(Gpu.objects.values_list("model", flat=True)))
    return [("", "---------"), *((name, name) for name in names)]

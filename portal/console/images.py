"""Admin pages of images and registry logins."""

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from images.catalogue import delete_image, save_image, update_digest
from images.logins import MOST_PASSWORD, delete_login, save_login
from images.models import Image, Login
from portal.image_view import describe_image_problem, view_images


class ImageAdmin(admin.ModelAdmin):
    fields = (
        "alias",
        "reference",
        "description",
        "team",
        "prepull",
        "digest",
        "trouble",
        "checked_at",
        "where",
        "failed",
    )
    readonly_fields = ("digest", "trouble", "checked_at", "where", "failed")
    list_display = ("alias", "reference", "team", "description", "prepull", "where", "trouble", "checked_at")
    list_filter = ("team",)
    list_select_related = ("team",)
    search_fields = ("alias", "reference", "description")
    actions = ("ask_now",)

    def save_model(self, request: HttpRequest, obj: Image, form: forms.ModelForm, change: bool) -> None:
        save_image(actor=request.user, image=obj)

    def delete_model(self, request: HttpRequest, obj: Image) -> None:
        delete_image(actor=request.user, image=obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Image]) -> None:
        for image in queryset:
            delete_image(actor=request.user, image=image)

    @admin.action(description=gettext_lazy("Resolve at the registries now"), permissions=["change"])
    def ask_now(self, request: HttpRequest, images: QuerySet[Image]) -> None:
        for image in images:
            if update_digest(image):
                image.refresh_from_db()
                self.message_user(request, f"{image.alias}: {describe_image_problem(image)}", "WARNING")

    @admin.display(description=gettext_lazy("already on"))
    def where(self, image: Image) -> str:
        return view_images([image])[0].where if image.pk else "–"

    @admin.display(description=gettext_lazy("could not be pulled in advance"))
    def failed(self, image: Image) -> str:
        failed = view_images([image])[0].failed if image.pk else []
        return "; ".join(f"{node}: {words}" for node, words in failed) or "–"

    @admin.display(description=gettext_lazy("problem"))
    def trouble(self, image: Image) -> str:
        return describe_image_problem(image) or "–"


class LoginForm(forms.ModelForm):
    password = forms.CharField(
        label=gettext_lazy("password or token"),
        required=False,
        strip=False,
        max_length=MOST_PASSWORD,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy("Stored encrypted and never shown. Empty: keep the previous one."),
    )

    class Meta:
        model = Login
        fields = ("registry", "user", "team")

    def clean_password(self) -> str:
        password = self.cleaned_data["password"]
        if not password and not self.instance.sealed:
            raise forms.ValidationError(_("Enter a password: there is none yet."))
        return password


class LoginAdmin(admin.ModelAdmin):
    form = LoginForm
    list_display = ("registry", "user", "team", "changed_at")
    list_filter = ("team",)
    list_select_related = ("team",)
    search_fields = ("registry", "user")

    def get_fields(self, request: HttpRequest, obj: Login | None = None) -> tuple[str, ...]:
        if obj and not self.has_change_permission(request, obj):
            return ("registry", "user", "team")
        return ("registry", "user", "password", "team")

    def get_readonly_fields(self, request: HttpRequest, obj: Login | None = None) -> tuple[str, ...]:
        return ("registry", "team") if obj else ()

    def save_model(self, request: HttpRequest, obj: Login, form: LoginForm, change: bool) -> None:
        save_login(actor=request.user, login=obj, password=form.cleaned_data["password"])

    def delete_model(self, request: HttpRequest, obj: Login) -> None:
        delete_login(actor=request.user, login=obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Login]) -> None:
        for login in queryset:
            delete_login(actor=request.user, login=login)

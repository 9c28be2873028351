"""The catalogue of images, who uses them, and the logins at registries."""

from collections.abc import Callable

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods, require_POST

from accounts.permissions import require
from images.catalogue import delete_image, find_image, save_image
from images.logins import MOST_PASSWORD, delete_login, find_login, logins_seen_by, save_login
from images.models import Image, Login
from jobs.models import Job
from portal.access.admin_lists import list_image_users
from portal.forms import save
from portal.image_view import view_images
from portal.pages.console.audit import list_history
from portal.pages.console.forms import CheckedBySaving, TeamChoice
from portal.pages.console.page import for_staff, person_of, show

MOST_LINES = 20
MOST_JOBS = 20


class ImageForm(CheckedBySaving):
    """A new image: its team stays."""

    team = TeamChoice(label=gettext_lazy("For"), required=False, empty_label=gettext_lazy("everybody"))

    class Meta:
        model = Image
        fields = ("alias", "reference", "description", "team", "prepull")
        labels = {"alias": gettext_lazy("Name"), "reference": gettext_lazy("Image")}


class ImageChangeForm(CheckedBySaving):
    class Meta:
        model = Image
        fields = ("alias", "reference", "description", "prepull")
        labels = ImageForm.Meta.labels


class LoginForm(CheckedBySaving):
    """A new login: registry and team stay."""

    team = TeamChoice(label=gettext_lazy("For"), required=False, empty_label=gettext_lazy("everybody"))
    password = forms.CharField(
        label=gettext_lazy("Password or token"),
        strip=False,
        max_length=MOST_PASSWORD,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy("Stored encrypted, and never shown."),
    )

    class Meta:
        model = Login
        fields = ("registry", "user", "team")
        labels = {"registry": gettext_lazy("Registry"), "user": gettext_lazy("User name")}


class LoginChangeForm(CheckedBySaving):
    password = forms.CharField(
        label=gettext_lazy("Password or token"),
        strip=False,
        required=False,
        max_length=MOST_PASSWORD,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy("Empty: it stays as it is."),
    )

    class Meta:
        model = Login
        fields = ("user",)
        labels = LoginForm.Meta.labels


@require_http_methods(["GET", "POST"])
@for_staff
def show_images(request: HttpRequest) -> HttpResponse:
    """List images and logins, or add an image."""
    if request.method != "POST":
        return show_all(request)
    require(person_of(request), "image.change")
    form = ImageForm(request.POST)
    if image := save(form, lambda: save_image(actor=person_of(request), image=form.instance)):
        messages.success(request, _("%(name)s is in the catalogue.") % {"name": image})
        return redirect("console_images")
    return show_all(request, form=form)


@require_POST
@for_staff
def add_login(request: HttpRequest) -> HttpResponse:
    require(person_of(request), "registry.change")
    form = LoginForm(request.POST, auto_id="login_%s")
    if login := save(form, _store_login(request, form)):
        messages.success(request, _("Images of %(registry)s are pulled with it.") % {"registry": login.registry})
        return redirect("console_images")
    return show_all(request, login_form=form)


@require_http_methods(["GET", "POST"])
@for_staff
def show_image(request: HttpRequest, image_id: int) -> HttpResponse:
    """Show an image and who uses it, or save what was changed of it."""
    image = find_image(person_of(request), image_id)
    if request.method != "POST":
        return show_one(request, image)
    require(person_of(request), "image.change")
    form = ImageChangeForm(request.POST, instance=image)
    if save(form, lambda: save_image(actor=person_of(request), image=form.instance)):
        messages.success(request, _("Saved."))
        return redirect("console_image", image_id=image_id)
    return show_one(request, find_image(person_of(request), image_id), form=form)


@require_POST
@for_staff
def remove_image(request: HttpRequest, image_id: int) -> HttpResponse:
    image = find_image(person_of(request), image_id)
    delete_image(actor=person_of(request), image=image)
    messages.success(request, _("%(name)s is not in the catalogue any more.") % {"name": image})
    return redirect("console_images")


@require_http_methods(["GET", "POST"])
@for_staff
def show_login(request: HttpRequest, login_id: int) -> HttpResponse:
    """Show a login, or save its user and password."""
    login = find_login(person_of(request), login_id)
    form = LoginChangeForm(request.POST if request.method == "POST" else None, instance=login)
    if form.is_bound:
        require(person_of(request), "registry.change")
    if save(form, _store_login(request, form)):
        messages.success(request, _("Saved."))
        return redirect("console_login", login_id=login_id)
    shown = find_login(person_of(request), login_id)
    context = {"login": shown, "form": form, "history": list_history(MOST_LINES, kind=Login.KIND, object_id=login_id)}
    status = 400 if form.is_bound else 200
    return show(request, "console/login.html", context, current="console_images", status=status)


@require_POST
@for_staff
def remove_login(request: HttpRequest, login_id: int) -> HttpResponse:
    login = find_login(person_of(request), login_id)
    delete_login(actor=person_of(request), login=login)
    words = _("Nothing is pulled from %(registry)s with it any more. Withdraw it at the registry, too.")
    messages.success(request, words % {"registry": login.registry})
    return redirect("console_images")


def show_all(request: HttpRequest, form: ImageForm | None = None, login_form: LoginForm | None = None) -> HttpResponse:
    images = list(Image.objects.select_related("team"))
    users = list_image_users(images)
    lines = [(view, sum(users[view.image.pk].values())) for view in view_images(images)]
    context = {
        "lines": lines,
        "logins": logins_seen_by(person_of(request)),
        "form": form or ImageForm(),
        "login_form": login_form or LoginForm(auto_id="login_%s"),
        "answer": _answer(len(images), sum(bool(view.problem_text) for view, _jobs in lines)),
    }
    status = 400 if form or login_form else 200
    return show(request, "console/images.html", context, current="console_images", status=status)


def show_one(request: HttpRequest, image: Image, form: ImageChangeForm | None = None) -> HttpResponse:
    (view,), used = view_images([image]), list_image_users([image])[image.pk]
    jobs = Job.objects.open().with_names().filter(spec__image__in=list(used)).order_by("-pk")
    context = {
        "view": view,
        "form": form or ImageChangeForm(instance=image),
        "count": sum(used.values()),
        "jobs": jobs[:MOST_JOBS],
        "history": list_history(MOST_LINES, kind=Image.KIND, object_id=image.pk),
    }
    status = 400 if form else 200
    return show(request, "console/image.html", context, current="console_images", status=status)


def _store_login(request: HttpRequest, form: LoginForm | LoginChangeForm) -> Callable[[], Login]:
    return lambda: save_login(actor=person_of(request), login=form.instance, password=form.cleaned_data["password"])


def _answer(images: int, wrong: int) -> str:
    words = ngettext("%(count)s image.", "%(count)s images.", images) % {"count": images}
    if wrong:
        words += " " + ngettext(
            "%(count)s cannot be resolved at its registry.", "%(count)s cannot be resolved at their registry.", wrong
        ) % {"count": wrong}
    return words

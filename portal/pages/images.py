"""Page of named images."""

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from images.catalogue import filter_visible_images
from portal.image_view import ImageView, view_images
from portal.pages.entry import signed_in
from portal.partial import render_page


@require_safe
@signed_in
def list_images(request: HttpRequest) -> HttpResponse:
    views = view_images(filter_visible_images(request.user))
    context = {"views": views, "answer": images_answer(views)}
    return render_page(request, "cluster/images.html", context, fragment="cluster/_images.html")


def images_answer(views: list[ImageView]) -> str:
    if not views:
        return _("The catalogue has no images yet.")
    return ngettext("The catalogue has %(n)s image.", "The catalogue has %(n)s images.", len(views)) % {"n": len(views)}

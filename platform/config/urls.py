"""Root URL configuration."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("api/v1/", include("portal.api.urls")),
    path("console/", admin.site.urls),
    path("", include("portal.pages.urls")),
]

handler403 = "portal.failures.not_permitted"
handler404 = "portal.failures.not_found"
handler500 = "portal.failures.server_error"

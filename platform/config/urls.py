"""Root URL configuration."""

from django.contrib import admin
from django.urls import include, path

from portal.api.metrics import Metrics, Targets

urlpatterns = [
    path("api/v1/", include("portal.api.urls")),
    path("metrics", Metrics.as_view(), name="api-metrics"),
    path("metrics/targets", Targets.as_view(), name="api-metrics-targets"),
    path("admin/", admin.site.urls),
    path("", include("portal.pages.urls")),
]

handler403 = "portal.error_pages.not_permitted"
handler404 = "portal.error_pages.not_found"
handler500 = "portal.error_pages.server_error"

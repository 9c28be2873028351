"""API of the history of jobs, machines, quotas and settings, as one file (docs/history-file.md)."""

import os
import tempfile

from django.http import StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from accounts.permissions import require
from monitoring.history.export import MOST_DAYS, export_history
from monitoring.history.file_format import compress_lines
from portal.api.view import ApiView, read_query
from portal.downloads import Reading

GZIP = "application/gzip"


class HistoryQuery(serializers.Serializer):
    """days: so many until now. anonymous: numbers instead of the names of people, teams, machines, jobs and images."""

    days = serializers.IntegerField(min_value=1, max_value=MOST_DAYS, default=30)
    anonymous = serializers.BooleanField(default=False)


class HistoryView(ApiView):
    scopes = {"GET": ("audit:read",)}
    operations = {"GET": "export_history"}

    @extend_schema(
        parameters=[HistoryQuery],
        responses={(200, GZIP): OpenApiResponse(OpenApiTypes.BINARY, "JSON lines: see docs/history-file.md.")},
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """Export what happened in the last days, for `manage.py tessera_sim --history`. For administrators."""
        require(request.user, "history.export")
        query, now = read_query(request, HistoryQuery), timezone.now()
        with tempfile.TemporaryFile() as file:  # so that what goes wrong is told, and no transaction waits for a reader
            for piece in compress_lines(export_history(now, query["days"], anonymous=query["anonymous"])):
                file.write(piece)
            size = file.tell()
            file.flush()
            body = Reading(os.dup(file.fileno()), 0, size)
        response = StreamingHttpResponse(body, content_type=GZIP)
        name = f"tessera-history-{now:%Y-%m-%d}.jsonl.gz"
        response["Content-Length"] = str(size)
        response["Content-Disposition"] = f'attachment; filename="{name}"'
        response["Cache-Control"] = "private, no-store"
        return response

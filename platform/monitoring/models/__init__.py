"""Tables of the monitoring room."""

from monitoring.models.now import CardNow, NodeNow, Source, TaskNow

__all__ = ["CardNow", "NodeNow", "Source", "TaskNow"]

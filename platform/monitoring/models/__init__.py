"""Tables of the monitoring room."""

from monitoring.models.now import CardNow, NodeNow, Source, TaskNow
from monitoring.models.usage import TaskUse, TaskUseNow

__all__ = ["CardNow", "NodeNow", "Source", "TaskNow", "TaskUse", "TaskUseNow"]

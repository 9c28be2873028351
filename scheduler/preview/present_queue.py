"""Load the world once for all questions of a request."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from accounts.models import User
from jobs.jobfile.spec import JobSpec
from jobs.submit import PoolChooser
from scheduler.loading.cache_locations import list_content_keys
from scheduler.loading.snapshots import World, load_present_world
from scheduler.preview.draft_checks import build_chooser
from scheduler.preview.trial_cycles import TrialCycles


class PresentQueue:
    """The world as one request sees it, loaded when it is first asked."""

    def __init__(self, user: User, specs: Sequence[JobSpec] = ()):
        """specs: what will be asked about, whose data and images the world tells, too."""
        self.user = user
        self._specs = specs

    @cached_property
    def world(self) -> World:
        return load_present_world(user_id=self.user.pk, reads=_list_reads(self.user, self._specs))

    @cached_property
    def trials(self) -> TrialCycles:
        """Cycles over the world without those far back in a long queue."""
        return TrialCycles(self.world).keep_front()

    @cached_property
    def chooser(self) -> PoolChooser:
        return build_chooser(self.user, self.world)


def _list_reads(user: User, specs: Iterable[JobSpec]) -> set[str]:
    """Return keys of content that the specs may fetch."""
    fetching = [spec for spec in specs if spec.data or spec.image]
    gids = user.teams.values_list("gid", flat=True) if fetching else ()
    return {key for gid in gids for one in fetching for key in list_content_keys(one, user.uid, gid)}

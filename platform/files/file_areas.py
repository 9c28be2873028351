"""File areas by name: "home" of a person, and "team:nlp" of a team."""

from dataclasses import dataclass

from django.conf import settings

from accounts.models import Team, User
from accounts.permissions import may, require
from common.errors import NotFound
from runtimes.storage.areas import AreaId
from runtimes.storage.file_store import FileStore

HOME, TEAM = "home", "team:"
NOBODYS_GID = 65534  # for people in no team


@dataclass(frozen=True)
class FileArea:
    """A file area as one person may use it. team: None for the home."""

    user: User
    team: Team | None

    @property
    def name(self) -> str:
        return f"{TEAM}{self.team.name}" if self.team else HOME

    @property
    def area_id(self) -> AreaId:
        """Which area it is: a person's home or a team's folder, by its account."""
        return AreaId("team", self.team.gid) if self.team else AreaId("home", self.user.uid)

    def name_of(self, path: str) -> str:
        """Return a path's last name, or the area's own."""
        return path.rpartition("/")[2] or (self.team.name if self.team else self.user.username)

    @property
    def limit_bytes(self) -> int:
        """0 for no limit."""
        return settings.TESSERA_TEAM_BYTES if self.team else settings.TESSERA_HOME_BYTES

    @property
    def may_write(self) -> bool:
        return self.team is None or may(self.user, "files.write", self.team)

    @property
    def store(self) -> FileStore:
        """Access to its files with the user's own rights."""
        return FileStore(settings.TESSERA_FILES, self.area_id, uid=self.user.uid, gid=self._gid())

    def _gid(self) -> int:
        team = self.team or self.user.teams.order_by("memberships__pk").first()
        return team.gid if team else NOBODYS_GID


def find_file_area(user: User, name: str, *, write: bool = False) -> FileArea:
    """Return a file area. Raises NotFound, and NotPermitted for a viewer's write."""
    if name == HOME:
        return FileArea(user, None)
    team = Team.objects.filter(members=user, name=name.removeprefix(TEAM)).first() if name.startswith(TEAM) else None
    if team is None or not may(user, "files.read", team):
        raise NotFound(kind="place", id=name)
    if write:
        require(user, "files.write", team)
    return FileArea(user, team)


def list_file_areas(user: User) -> list[FileArea]:
    """List the user's home and the teams' areas that they may read."""
    teams = Team.objects.filter(members=user).order_by("name")
    return [FileArea(user, None), *(FileArea(user, team) for team in teams if may(user, "files.read", team))]

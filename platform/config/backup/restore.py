"""Restore a backup onto an empty installation, and say what ran in between."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from django.conf import settings
from django.core.management import call_command

from common.private_file import create_private_file
from config.backup.backup import DATABASE, SECRETS, TREES, find_roots
from config.backup.database import clear_database, has_rows, list_known_migrations, restore_database, skip_numbers
from config.backup.in_between import record_in_between
from config.backup.manifest import Manifest, Unusable, check_parts, check_version, read_manifest
from config.backup.sealing import unseal
from config.backup.trees import is_empty, unpacking
from portal.access.ssh_endpoint import HOST_KEY
from runtimes.contract.errors import Unavailable
from runtimes.storage.areas import AreaId, get_area_path
from scheduler.runtime import get_runtime

LOST_WITHOUT_SECRETS = (
    "Without the platform's keys, passwords of image registries and secrets of jobs are to be entered anew, webhooks "
    "sign with other secrets, and SSH clients see another host key. Jobs, quotas, files, history, passwords and API "
    "tokens are whole."
)


@dataclass(frozen=True)
class Wishes:
    """without_secrets: go on without the keys. database_only: logs, code, homes and tasks are still in place.
    hold_waiting: nothing that waits starts by itself. runtime_away: do not ask what runs.
    """

    without_secrets: bool = False
    database_only: bool = False
    hold_waiting: bool = False
    runtime_away: bool = False


def restore_backup(folder: Path, key: X25519PrivateKey | None, wishes: Wishes) -> list[str]:
    """Restore, and return what to tell, a line each. Raises Unusable and BadKey; nothing is changed then."""
    manifest = read_manifest(folder)
    check_version(manifest, list_known_migrations())
    secrets = open_secrets(folder, manifest, key, wishes.without_secrets)
    _check_secret_key(secrets)
    check_parts(folder, manifest)
    _check_is_empty(manifest, wishes)
    _check_runtime(manifest, wishes)
    made_at = datetime.fromisoformat(manifest.made_at)
    with ExitStack() as trees:
        for name, root in find_roots().items():
            if TREES[name] in manifest.parts and not wishes.database_only:
                trees.enter_context(unpacking(folder / TREES[name], root))
        restore_database(folder / DATABASE)
        try:
            call_command("migrate", verbosity=0)
            next_job = skip_numbers(made_at)
        except BaseException:
            clear_database()
            raise
    _write_secrets(secrets)
    _write_settings(manifest)
    return list(_describe(manifest, wishes, bool(secrets), made_at, next_job))


def open_secrets(folder: Path, manifest: Manifest, key: X25519PrivateKey | None, without: bool) -> dict[str, str]:
    """Return the platform's keys; {} without them. Raises Unusable and BadKey."""
    if without or (not manifest.sealed and key is None):
        return {}
    if not manifest.sealed:
        raise Unusable("The backup has no secrets.", "Leave --key out.")
    if key is None:
        raise Unusable(
            "The platform's keys in this backup are sealed.",
            f"Give the private key: --key FILE. Or --without-secrets: {LOST_WITHOUT_SECRETS}",
        )
    return json.loads(unseal((folder / SECRETS).read_bytes(), key))


def _check_secret_key(secrets: dict[str, str]) -> None:
    """Compare it with the environment's, where the platform has it from there."""
    if secrets and not settings.TESSERA_EMBEDDED and secrets["secret_key"] != settings.SECRET_KEY:
        raise Unusable(
            "TESSERA_SECRET_KEY is another one than when the backup was made.",
            "Write it to a file by --secrets-to FILE, set it for all processes, and restore again.",
        )


def _check_is_empty(manifest: Manifest, wishes: Wishes) -> None:
    if has_rows():
        raise Unusable("This installation's database is in use.", "Restore onto an empty one.")
    for name, root in find_roots().items():
        if TREES[name] in manifest.parts and not wishes.database_only and not is_empty(root):
            raise Unusable(
                f"{root} is not empty.",
                "Restore onto an empty installation; or, if its files are right, --database-only.",
            )


def _check_runtime(manifest: Manifest, wishes: Wishes) -> None:
    """Ask the runtime before anything is changed."""
    here = str(settings.KUBERNETES_OPTIONS["install"]) if settings.IN_CONTAINERS else ""
    if here != manifest.install:
        raise Unusable(
            f"The backup is of TESSERA_INSTALL={manifest.install or 'none: a platform without a cluster'}, and this is "
            f"{here or 'a platform without a cluster'}: what still runs would not be found.",
            "Set TESSERA_RUNTIME and TESSERA_INSTALL as they were.",
        )
    if not wishes.runtime_away:
        try:
            get_runtime().list_containers()
        except Unavailable as away:
            raise Unusable(
                f"What still runs cannot be asked: {away}",
                "Make the cluster reachable; or, if it is gone for good, --runtime-away: its tasks are lost then.",
            ) from None


def _write_secrets(secrets: dict[str, str]) -> None:
    """Put the keys where the platform reads them."""
    names = [name for name in secrets if name.startswith(HOST_KEY)]
    found = {name: secrets[name] for name in names}
    if settings.TESSERA_EMBEDDED and secrets:
        found["secret_key"] = secrets["secret_key"]
    for name, content in found.items():
        (settings.TESSERA_DATA / name).unlink(missing_ok=True)
        with create_private_file(settings.TESSERA_DATA / name) as file:
            file.write(content)


def _write_settings(manifest: Manifest) -> None:
    for name, content in manifest.settings.items():
        if not (settings.TESSERA_DATA / name).exists():
            (settings.TESSERA_DATA / name).write_text(content)


def _describe(manifest: Manifest, wishes: Wishes, has_secrets: bool, made_at: datetime, next_job: int) -> Iterator[str]:
    rows = manifest.rows
    yield (
        f"Restored as of {made_at:%F %H:%M:%S} UTC: {rows['jobs_job']} jobs, {rows['accounts_user']} people, "
        f"{rows['accounts_team']} teams, {rows['quotas_quota']} quotas, {rows['events_event']} events."
    )
    yield f"New jobs begin with job-{next_job}: numbers that were given after the backup are not given again."
    yield "Everybody signs in again; API tokens and SSH keys go on."
    if not has_secrets:
        yield LOST_WITHOUT_SECRETS
    if manifest.missing and not wishes.database_only:
        yield f"{len(manifest.missing)} files were missing at the backup already: see its manifest.json."
    if manifest.homes == "reference":
        yield from _check_areas(manifest)
    if wishes.runtime_away:
        yield "What ran was not asked. Its tasks become lost; settle them when you know that nothing of them runs."
    else:
        yield "What ran in between:"
        found = record_in_between(get_runtime(), made_at, hold_waiting=wishes.hold_waiting)
        yield from (f"  {line}" for line in found or ["nothing that is known here."])


def _check_areas(manifest: Manifest) -> Iterator[str]:
    """Compare homes and team folders, which were not copied, with the list of them."""
    missing = []
    for area in manifest.areas:
        path = get_area_path(settings.TESSERA_FILES, AreaId(area["kind"], area["number"]))
        if not path.is_dir():
            missing.append(f"  {path} of {area['of']}")
    if not missing:
        yield f"All {len(manifest.areas)} homes and team folders are in {settings.TESSERA_FILES}."
        return
    yield (
        f"{len(missing)} of {len(manifest.areas)} homes and team folders are not in {settings.TESSERA_FILES}; "
        f"they were in {manifest.files_root}. Put them there, or set TESSERA_FILES, before people start jobs:"
    )
    yield from missing

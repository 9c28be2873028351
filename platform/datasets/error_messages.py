"""Sentences for the errors of datasets."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "bad_dataset_name": _(
        "“%(got)s” is not a name of a dataset. Use lower-case letters, digits, dots and hyphens, such as corpus or "
        "bert-base, up to %(max)s characters."
    ),
    "bad_stage_name": _(
        "“%(got)s” is not a name of a stage. Use lower-case letters, digits and hyphens, such as prod, up to 32 "
        "characters, and not v with a digit, as versions are written."
    ),
    "share_needs_teams": _("Name the teams that may read it once it is there, or choose another way to share it."),
    "too_many_stages": _("It would have more than %(max)s stages. Remove one first."),
    "unknown_share_team": _("There is no team %(team)s. Write the names of teams as they are."),
    "unknown_stage_version": _("%(name)s has no version %(got)s that is ready. Choose one that is."),
}
ERROR_MESSAGES = {
    "bad_source": _("The folder could not be read as it is. Try again."),
    "dataset_at_stage": _(
        "Version %(version)s is at the stage %(stages)s. Set that to another version, or remove it, first."
    ),
    "dataset_no_room": _(
        "The team %(team)s has no room for this version: %(used)s of %(limit)s are used, and it needs more. Delete "
        "versions or files first."
    ),
    "dataset_not_a_folder": _("%(path)s is not a folder. Name the folder whose files are to be the version."),
    "dataset_version_not_deleted": _("Version %(version)s is not deleted, or its files are gone for good."),
    "dataset_version_not_ready": _("Version %(version)s is not ready, so there is nothing to do with it yet."),
    "source_changes": _(
        "%(path)s changed while it was read, three times. Stop what writes it, or take a folder that rests."
    ),
    "taking_failed": _("The version could not be made: the platform was interrupted %(tries)s times. Take it anew."),
    "too_many_files": _(
        "The folder has more than %(max)s files. Pack them into fewer, larger ones, such as tar files or WebDataset."
    ),
}

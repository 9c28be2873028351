"""Sentences for the errors of secrets."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "secret_has_nul": _(
        "A secret cannot hold the character NUL. Encode the value in base64, and decode it in the job."
    ),
    "secret_of_the_shell": _("%(name)s is what the shell of each task starts with. Choose another name."),
    "secret_too_large": _(
        "The value has %(got)s bytes, and a secret at most %(max)s. Keep what is not secret of it in a file."
    ),
}
ERROR_MESSAGES = {
    "secret_in_use": _(
        "Jobs that have yet to end name the secret %(name)s: %(jobs)s. Wait until they end, or delete it nevertheless: "
        "those that have not started will then fail."
    ),
    "user_limit.secrets": _("There are %(used)s of at most %(limit)s secrets. Delete one first."),
}

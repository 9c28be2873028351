"""Sentences for the errors of accounts and keys."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "bad_value": _("%(field)s cannot be this: %(why)s"),
    "in_the_past": _("This is over already. Choose a later day, or none."),
    "range_used_up": _(
        "Every number from %(min)s to %(max)s is in use. Ask an administrator to widen the range in the settings."
    ),
    "ssh_key_of_another": _("This key belongs to another account. Make a key of your own: ssh-keygen -t ed25519"),
    "ssh_key_too_many": _("You have %(max)s keys already. Remove one that you do not use."),
    "ssh_key_unknown_type": _(
        "“%(got)s” is no type of key that opens anything here. Use one of %(known)s; to make one: ssh-keygen -t ed25519"
    ),
    "ssh_key_unreadable": _(
        "This is no public key. Paste the one line of a file such as ~/.ssh/id_ed25519.pub, beginning with its type."
    ),
    "ssh_key_weak": _(
        "This RSA key has %(bits)s bits, and %(min)s are the least. Make a new one: ssh-keygen -t ed25519"
    ),
    "ssh_key_yours": _("You have added this key before, as “%(name)s”. Remove that one first."),
    "ssh_private_key": _(
        "This is the private half of a key, and never leaves your machine. Paste the file that ends in .pub; if others"
        " may have seen this one, make a new key."
    ),
    "unknown_scope": _("“%(scope)s” is no scope that you can give. Choose from: %(known)s."),
    "weak_password": _("This password is too easy to guess. %(why)s"),
}

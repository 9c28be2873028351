"""Sentences for the errors of accounts and keys."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "bad_value": _("%(field)s is not valid: %(why)s"),
    "ends_before_it_begins": _("It ends before it begins. Choose a later end, or none."),
    "in_the_past": _("This date has passed. Choose a later day, or none."),
    "no_such_person": _("There is no person “%(name)s”. Check the spelling of the user name."),
    "no_such_team": _("There is no team “%(name)s”. Check the spelling, or create the team first."),
    "outlives_token": _(
        "A token never outlives the token that creates it, which expires at %(until)s. Choose at most %(largest)s "
        "days, or leave “days” out: then both expire together."
    ),
    "outlives_token.none": _(
        "A token never outlives the token that creates it, which expires in less than a day, at %(until)s. Leave "
        "“days” out: then both expire together."
    ),
    "own_role": _("You cannot give up your own role. Ask another admin."),
    "own_suspension": _("You cannot suspend yourself. Ask another admin."),
    "range_used_up": _(
        "Every number from %(min)s to %(max)s is in use. Ask an administrator to widen the range in the settings."
    ),
    "reserved_username": _(
        "“%(name)s” is the name of an account of the machine or of the platform itself. Choose another user name, such "
        "as your own name."
    ),
    "scope_beyond_token": _(
        "A token has no scope that the token which creates it lacks, and this one lacks “%(scope)s”. Choose from: "
        "%(known)s, or create it in the portal, under API tokens."
    ),
    "ssh_key_of_another": _("This key belongs to another account. Create your own key: ssh-keygen -t ed25519"),
    "ssh_key_outlives_token": _(
        "A key never outlives the token that adds it, which expires at %(until)s. Choose an earlier time, or add the "
        "key in the portal, under SSH keys."
    ),
    "ssh_key_too_many": _("You already have %(max)s keys. Remove one that you do not use."),
    "ssh_key_unknown_type": _(
        "Keys of type “%(got)s” are not accepted. Use one of %(known)s. To create one: ssh-keygen -t ed25519"
    ),
    "ssh_key_unreadable": _(
        "This is not a public key. Paste the line of a file such as ~/.ssh/id_ed25519.pub; it begins with the "
        "type of the key."
    ),
    "ssh_key_weak": _(
        "This RSA key has %(bits)s bits; at least %(min)s are required. Create a new one: ssh-keygen -t ed25519"
    ),
    "ssh_key_yours": _("You have already added this key, as “%(name)s”. Remove that one first."),
    "ssh_private_key": _(
        "This is a private key, which must never leave your machine. Paste the file that ends in .pub. If others "
        "may have seen this key, create a new one."
    ),
    "suspended_person": _("%(name)s is suspended. Restore access first."),
    "team_below_itself": _("A team cannot be below itself. Choose another parent."),
    "too_many_announcements": _("There are %(max)s announcements already. End one first."),
    "too_many_tokens": _(
        "You have as many tokens as a person may have, %(max)s. Revoke those that you no longer need, under API tokens "
        "in the portal; programs that do the same work may share one."
    ),
    "unknown_scope": _("“%(scope)s” is not a scope that you can grant. Choose from: %(known)s."),
    "unknown_zone": _("“%(got)s” is not a time zone. Write one such as Asia/Shanghai or UTC."),
    "weak_password": _("This password is too easy to guess. %(why)s"),
}

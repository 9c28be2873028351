"""Sentences for the errors of quotas."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "cell_above_guarantee": _(
        "The GPU guarantee is less than one node of %(cards)s cards. Guarantee at least %(cards)s cards, or "
        "choose 1 for single cards."
    ),
    "cell_without_node": _(
        "No node has exactly %(cards)s cards of pool %(pool)s; the largest has %(largest)s. Choose as many cards as a "
        "node has, or 1 for single cards."
    ),
    "cell_without_node.none": _("No node has a card of pool %(pool)s yet. Choose 1 for single cards."),
    "cells_above_pool": _(
        "The guarantee is %(nodes)s nodes of %(cards)s cards. The pool has %(total)s such nodes, and %(left)s of "
        "them are not promised to others. Guarantee less, or choose 1 for single cards."
    ),
    "clash_at_return": _(
        "At %(at)s a quota in this pool returns to what it was, and then this does not fit: more would be guaranteed "
        "than the pool, the parent or the limit has. Lower it, or let it hold until then only."
    ),
    "guarantee_above_limit": _(
        "The guarantee (%(guarantee)s) is above the limit (%(limit)s). Lower the guarantee or raise the limit."
    ),
    "guarantee_above_parent": _(
        "The guarantee is above the limit of the parent team %(parent)s in this pool. Lower it, or raise the "
        "parent’s limit first."
    ),
    "guarantee_above_pool": _(
        "Of the pool’s %(total)s, only %(left)s are not promised to others. Guarantee at most %(left)s, or lower "
        "another team’s guarantee first."
    ),
    "nothing_until": _("Nothing changes until then. Say what holds until then, such as a limit."),
    "quota_twice": _("The quota of %(team)s in %(pool)s is named twice. Name each once."),
    "until_past": _("%(until)s is over already. Choose a time in the future, or none for what is to last."),
    "until_too_far": _(
        "%(until)s is more than %(days)s days away. Choose an earlier time, or none for what is to last."
    ),
}

"""Sentences for error codes, in the reader's language; each names the remedy.

Sorted, whole sentences with named parameters. Variants of a code: `code.near` with `did_you_mean`, `code.none` with
nothing to choose from, `code.<feature>` or `code.<resource>`. People's input is a shortened parameter, escaped when
shown.
"""

from django.utils.translation import gettext_lazy as _

from common.amounts import show_params
from common.errors import FieldError, PlatformError
from common.text import shorten

FIELD_WORDS = {
    "alias": _("An alias (*%(name)s) is not allowed in a job file. Write the value out in full."),
    "anchor": _("An anchor (&%(name)s) is not allowed in a job file. Remove it and write each value out in full."),
    "archive_bad_name": _(
        "The code pack holds the path “%(name)s”, which leaves its directory. Pack the directory again with tessera."
    ),
    "archive_link": _("The link “%(name)s” in the code points outside of it. Remove the link or copy the file in."),
    "archive_ratio": _(
        "The code pack grows more than %(max)s times when it is unpacked. Leave out files that are mostly empty."
    ),
    "archive_special": _("The code pack holds “%(name)s”, which is neither file, directory nor link. Leave it out."),
    "archive_too_large": _(
        "The code pack is larger than %(max)s. Leave out data and results, for example by .gitignore."
    ),
    "archive_too_many": _("The code pack holds more than %(max)s files. Leave some out, for example by .gitignore."),
    "archive_too_many_links": _("The code pack holds more than %(max)s links, or a very long one. Leave some out."),
    "archive_twice": _("The code pack holds “%(name)s” twice. Pack the directory again with tessera."),
    "archive_unpacked": _(
        "The code is larger than %(max)s when unpacked. Leave out data and results, for example by .gitignore."
    ),
    "archive_unreadable": _("The code pack is damaged or no tar.gz file. Pack the directory again with tessera."),
    "bad_cards": _("“%(got)s” is no number of cards. Write a number such as 2 or 1.5, or a part such as 1/4."),
    "bad_characters": _("%(field)s holds the character %(character)s, which cannot be shown. Remove it."),
    "bad_code": _(
        "“%(got)s” names no code. Write a dot for this directory, or the digest of a pack that was uploaded."
    ),
    "bad_cpu": _("“%(got)s” is no number of cores. Write a number such as 2 or 0.5, or thousandths such as 500m."),
    "bad_data": _(
        "“%(got)s” names no files. Write home:path or team:path, and :ro behind it for reading only, such as "
        "team:datasets/imagenet:ro."
    ),
    "bad_data_target": _(
        "Files cannot be put at “%(got)s”. Write a path beneath the work directory, such as data/imagenet."
    ),
    "bad_directory": _("“%(got)s” is no directory. Write a path such as runs, or ~/runs in your home."),
    "bad_duration": _("“%(got)s” is no length of time. Write it like 90m, 1h30m, 18h or 3d."),
    "bad_env_name": _("“%(got)s” is no name of a variable. Use letters, digits and underscores, and no digit first."),
    "bad_gpu": _(
        "“%(got)s” is no amount of GPU. Write 1 or 2 for whole cards, 1/4 or 10GB for a slice, H100:2 or H100/4 "
        "for a model."
    ),
    "bad_image": _("“%(got)s” is no name of an image. Write it like registry/name:tag."),
    "bad_label_name": _(
        "“%(got)s” is no name of a label. Use up to 63 letters, digits, dots, slashes, dashes and underscores."
    ),
    "bad_memory": _("“%(got)s” is no amount of memory. Write a number and a unit, such as 16GB or 16GiB."),
    "bad_name": _("This cannot be the name. Write 1 to %(max)s visible characters."),
    "bad_notebook_name": _(
        "“%(got)s” cannot name a notebook. Use up to 40 small letters, digits and dashes, with a letter or digit first "
        "and last, and nothing like job-12 or nb-12."
    ),
    "bad_path": _(
        "%(field)s is no path here. Write names with slashes between, without dots alone and without a slash in front."
    ),
    "bad_role_name": _(
        "“%(got)s” is no name of a role. Use up to 31 small letters, digits, dashes and underscores, with a "
        "letter first."
    ),
    "bad_span": _("“%(got)s” is no range. Write the smaller number first, such as 4..8, or one number."),
    "bad_topic": _(
        "This is no topic. Write a kind such as job, or a kind and what happened to it, such as job.failed."
    ),
    "bad_url": _(
        "This is no address that can be called. Write one that begins with http:// or https://, of up to %(max)s plain "
        "characters, without a user, password or #."
    ),
    "bad_value": _("%(field)s cannot be this: %(why)s"),
    "beside_roles": _(
        "Each role says its own “%(key)s”, so it cannot stand beside them. Move it into the roles that it is meant for."
    ),
    "cell_above_guarantee": _(
        "The GPU guarantee is less than one node of %(cards)s cards. Guarantee %(cards)s cards at least, or choose 1 "
        "for single cards."
    ),
    "cell_without_node": _(
        "No node has exactly %(cards)s cards of pool %(pool)s; the largest has %(largest)s. Choose as many cards as a "
        "node has, or 1 for single cards."
    ),
    "cell_without_node.none": _("No node has a card of pool %(pool)s yet. Choose 1 for single cards."),
    "cells_above_pool": _(
        "The guarantee is %(nodes)s nodes of %(cards)s cards. Of the pool’s %(total)s such nodes %(left)s are not "
        "promised to others yet. Guarantee less, or choose 1 for single cards."
    ),
    "choose_team": _("You are in several teams. Name one of them as team: %(known)s."),
    "code_not_uploaded": _(
        "“code: .” means the directory you stand in, which only the command line can see. Upload it in the "
        "form, or submit with tessera."
    ),
    "confirm_name": _("Type the name of the notebook, “%(name)s”, to delete it."),
    "data_twice": _("Files are put at %(target)s twice. Remove one of the two, or choose another path."),
    "duplicate_key": _("“%(key)s” is written twice. Keep one of the two."),
    "empty": _("There is nothing in this job file. Write at least a line such as “run: python train.py”."),
    "file_too_large": _(
        "The job file is larger than %(max)s bytes. Move data and long scripts into the code directory."
    ),
    "forbidden_address": _(
        "This address lies inside a private network or uses an unusual port, so it may not be called. "
        "Use a public one, or ask an administrator to allow its network."
    ),
    "given_twice": _("“%(key)s” is given for the role and “%(other)s” for the whole job. Keep one of the two."),
    "gpu_part_too_large": _("%(got)s is more than one card. Ask for a part below 1, or for whole cards such as 2."),
    "grace_beyond_pool": _(
        "Pool %(pool)s gives a job %(max)s at most for its checkpoint, not %(got)s. Lower the grace, or choose another "
        "pool."
    ),
    "guarantee_above_limit": _(
        "The guarantee (%(guarantee)s) is above the limit (%(limit)s). Lower the guarantee or raise the limit."
    ),
    "guarantee_above_parent": _(
        "The guarantee is above the limit of the parent team %(parent)s in this pool. Lower it, or raise the "
        "parent’s limit first."
    ),
    "guarantee_above_pool": _(
        "Only %(left)s of the pool’s %(total)s are not promised to others yet. Guarantee %(left)s at most, or "
        "lower another team’s guarantee first."
    ),
    "impossible_cpu_milli": _(
        "No node in pool %(pool)s can give one task %(asked)s CPU cores. Ask for %(largest)s at most."
    ),
    "impossible_cpu_milli.none": _(
        "No node in pool %(pool)s can give a task CPU cores. Choose another pool, or ask an administrator to "
        "add a node."
    ),
    "impossible_gpu_instance": _(
        "An instance of a card is given whole, one to a task, and to those who name its model. Ask pool %(pool)s for "
        "%(largest)s."
    ),
    "impossible_gpu_memory_mib": _(
        "No card in pool %(pool)s has %(asked)s of GPU memory for one slice. Ask for %(largest)s at most, or "
        "for a whole card."
    ),
    "impossible_gpu_milli": _("Pool %(pool)s can never give %(asked)s GPUs to one job. Ask for %(largest)s at most."),
    "impossible_gpu_model": _("Pool %(pool)s has no %(asked)s card. Ask for one of its models: %(largest)s."),
    "impossible_gpu_model.none": _("Pool %(pool)s has no %(asked)s card. Choose another pool or leave the GPU out."),
    "impossible_gpu_sharing": _(
        "The cards of pool %(pool)s are given out whole, so a part of one (%(asked)s) is not possible there. "
        "Ask for 1, or choose a shared pool."
    ),
    "impossible_gpus": _(
        "No node in pool %(pool)s has %(asked)s such GPUs; the largest has %(largest)s. Ask for %(largest)s at "
        "most, or spread the job over more nodes."
    ),
    "impossible_gpus.none": _("Pool %(pool)s has no GPU. Choose another pool or leave the GPU out."),
    "impossible_memory_mib": _(
        "No node in pool %(pool)s can give one task %(asked)s of memory. Ask for %(largest)s at most."
    ),
    "impossible_memory_mib.none": _(
        "No node in pool %(pool)s can give a task memory. Choose another pool, or ask an administrator to add a node."
    ),
    "impossible_tasks": _(
        "Only %(largest)s of the %(asked)s tasks fit into pool %(pool)s at the same time, even when it is "
        "empty. Ask for %(largest)s nodes at most, or for less on each."
    ),
    "impossible_tasks.none": _(
        "Not one of the %(asked)s tasks fits into pool %(pool)s, even when it is empty. Ask for less on each node."
    ),
    "in_the_past": _("This is over already. Choose a later day, or none."),
    "invalid": _("%(field)s cannot be used as it is. Check it against the documentation of the job file."),
    "json_syntax": _("This is no valid JSON: the mistake is near line %(line)s, column %(column)s. Correct it there."),
    "key_not_text": _("A key must be one word. Write “key: value” with plain text before the colon."),
    "maintenance_backwards": _("The maintenance ends at or before its beginning. Choose a later end."),
    "maintenance_nowhere": _("The maintenance is of no machine. Name at least one, or a pool."),
    "maintenance_over": _("The maintenance would be over already. Choose a later end."),
    "merge_key": _("The merge key << is not allowed in a job file. Write the keys out in full."),
    "no_containers": _(
        "This installation starts programs without containers, so it cannot use an image. Leave image out."
    ),
    "no_quota": _(
        "The team %(team)s has no quota in pool %(pool)s. Choose one of its pools (%(known)s), or ask an "
        "administrator for quota."
    ),
    "no_quota.none": _(
        "The team %(team)s has no quota in pool %(pool)s, nor in any other. Ask an administrator for quota."
    ),
    "no_quota_at_all": _("The team %(team)s has no quota in any pool. Ask an administrator for quota."),
    "no_such_task": _("No task “%(got)s” of this job runs. Write it like main.0, or leave it out for all."),
    "no_team": _(
        "You are in no team yet, and every job belongs to one. Ask an administrator for an invitation to a team."
    ),
    "not_a_map": _("A job file is a list of “key: value” lines. Begin with a line such as “run: python train.py”."),
    "not_a_number": _("%(field)s is infinite or not a number. Write a number."),
    "not_a_slice": _("“%(got)s” is no slice of one card. Write a part such as 1/2, or an amount such as 12GB."),
    "not_in_catalogue": _("“%(got)s” is not in the catalogue, and other images may not be used here. Use %(known)s."),
    "not_in_catalogue.none": _(
        "Only images of the catalogue may be used here, and it is empty. Leave image out, or ask an administrator."
    ),
    "not_supported_yet": _("“%(key)s” belongs to the job file, but is not supported by this version. Leave it out."),
    "not_supported_yet.code_from_git": _(
        "Code from a repository is not supported by this version. Clone it, and write a dot for its directory."
    ),
    "not_supported_yet.gpu_range": _(
        "A range of GPUs (“%(key)s”) is not supported by this version. Write one amount, such as 4 or 40GB."
    ),
    "not_supported_yet.gpu_several_slices": _(
        "Several slices in one task (“%(key)s”) are not supported by this version. Ask for one slice, or for more"
        " nodes."
    ),
    "not_utf8": _("The job file is not UTF-8: byte %(byte)s cannot be read. Save it as UTF-8."),
    "number_out_of_range": _("%(field)s is a number far out of range. Write a smaller one."),
    "out_of_range": _("%(field)s must be from %(min)s to %(max)s. Choose a value between them."),
    "outer_space": _("%(field)s begins or ends with a space. Remove the space."),
    "port_twice": _("Port %(port)s stands there twice. Write it once."),
    "range_used_up": _(
        "Every number from %(min)s to %(max)s is in use. Ask an administrator to widen the range in the settings."
    ),
    "rate_policy": _(
        "Your limit is %(limit)s jobs running at once, so this one could never start. Ask an administrator for "
        "a higher limit."
    ),
    "required": _("%(field)s is missing. Add it."),
    "reserved_name": _(
        "The variable %(name)s is set by the platform. Remove it, or set another one inside your command."
    ),
    "role_twice": _(
        "The roles %(other)s and %(role)s differ in a dash only, and would have the same variables. Rename one of them."
    ),
    "several_documents": _(
        "A job file holds one job. Remove the line with three dashes, and submit each job by itself."
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
    "tab": _("There is a tab on line %(line)s where YAML wants spaces. Replace the tab by spaces."),
    "tag": _("A tag (“%(name)s”) is not allowed in a job file. Remove it and write the plain value."),
    "team_limit": _(
        "The team %(team)s may never hold more than %(limit)s %(resource)s in pool %(pool)s, and this asks for "
        "%(asked)s. Ask for less, or for a higher limit."
    ),
    "team_limit.memory_mib": _(
        "The team %(team)s may never hold more than %(limit)s of memory in pool %(pool)s, and this asks for "
        "%(asked)s. Ask for less, or for a higher limit."
    ),
    "time_above_max": _(
        "The estimate time (%(time)s) is above the limit max_time (%(max_time)s). Lower the one or raise the other."
    ),
    "too_deep": _("The file is nested more than %(max)s levels deep. Make it flatter."),
    "too_large": _("%(field)s is too large. The most is %(max)s."),
    "too_long": _("%(field)s is too long. Shorten it to %(max)s at most."),
    "too_many": _("%(field)s has %(got)s entries. Keep %(max)s at most."),
    "too_many_nodes": _("The file holds more than %(max)s values. Move long lists into a file of your code."),
    "too_many_tasks": _("The roles have %(got)s tasks together. Ask for %(max)s at most."),
    "too_small": _("%(field)s is too small. The least is %(min)s."),
    "unit_missing": _("%(field)s is %(got)s of what? Add a unit, such as %(got)sGB."),
    "unknown_code": _(
        "You have uploaded no code with the digest “%(digest)s”. Upload it first, or submit from its directory "
        "with tessera."
    ),
    "unknown_key": _("“%(key)s” is not a key of the job file. Remove it, or look it up in the documentation."),
    "unknown_key.near": _("“%(key)s” is not a key of the job file. Did you mean “%(did_you_mean)s”?"),
    "unknown_node": _("There is no machine “%(node)s”. Choose one of: %(known)s."),
    "unknown_pool": _("There is no pool “%(pool)s”. Choose one of: %(known)s."),
    "unknown_pool.none": _(
        "There is no pool “%(pool)s”, and the team %(team)s has no quota in any. Ask an administrator for quota."
    ),
    "unknown_scope": _("“%(scope)s” is no scope that you can give. Choose from: %(known)s."),
    "unknown_team": _("You are in no team “%(team)s”. Choose one of yours: %(known)s."),
    "unknown_team.none": _(
        "You are in no team yet, and every job belongs to one. Ask an administrator for an invitation to a team."
    ),
    "unknown_value": _("%(field)s cannot be “%(got)s”. Choose one of: %(allowed)s."),
    "unknown_value.near": _(
        "%(field)s cannot be “%(got)s”. Did you mean “%(did_you_mean)s”? Choose one of: %(allowed)s."
    ),
    "user_limit": _(
        "You may never hold more than %(limit)s %(resource)s, and this asks for %(asked)s. Ask for less, or for "
        "a higher limit."
    ),
    "user_limit.memory_mib": _(
        "You may never hold more than %(limit)s of memory, and this asks for %(asked)s. Ask for less, or for a "
        "higher limit."
    ),
    "weak_password": _("This password is too easy to guess. %(why)s"),
    "workdir_outside": _("“%(got)s” lies outside the code. Write a path below its top, such as src/train."),
    "wrong_type": _("%(field)s must be %(expected)s, but it is %(got)s. Change the value; quotes make a text of it."),
    "yaml_syntax": _(
        "This is no valid YAML near line %(line)s, column %(column)s (%(problem)s). Check quotes, colons and "
        "indentation there."
    ),
}

KIND_WORDS = {
    "duration": _("a length of time such as 18h"),
    "gpu_amount": _("an amount of GPU such as 1, 1/4 or 10GB"),
    "list": _("a list"),
    "map": _("a group of “key: value” lines"),
    "memory_amount": _("an amount of memory such as 16GB"),
    "nothing": _("empty"),
    "number": _("a number"),
    "something_else": _("something else"),
    "text": _("text"),
    "true_or_false": _("true or false"),
    "whole_number": _("a whole number"),
}

WAITS_YET = _("%(name)s waits in the queue. It can be entered as soon as it runs.")
STARTS_NOW = _("%(name)s is just starting. Try again in a moment.")
ERROR_WORDS = {
    "cannot_move_there": _("It cannot be moved there: a folder does not go into itself. Choose another place."),
    "changed_meanwhile": _(
        "It was changed since you looked. Look again, and send your change with the new ETag if it still makes sense."
    ),
    "conflict": _("This clashes with something that is there already. Look at it and try again."),
    "database_away": _(
        "The platform's database does not answer, so nothing can be shown or changed now. Jobs that run go on. "
        "Try again in a minute."
    ),
    "disk_full": _("The disk under these files is full. Delete something, or ask an administrator for room."),
    "event_gone": _("The event of this delivery is not kept any more, so it cannot be sent again."),
    "files_closed": _("These files are closed to you. Ask their owner to open them (chmod)."),
    "files_remain": _("The folder holds so much that not all of it is deleted yet. Delete it once more."),
    "foreign_origin": _("This request came from another site, so it was refused. Open the page here and try again."),
    "idempotency_key_reused": _("This Idempotency-Key came with another request before. Use a new key."),
    "impossible": _("This could never run here. Change what it asks for."),
    "internal": _(
        "Something went wrong on our side. Try again; if it stays, tell an administrator the request number."
    ),
    "invalid_input": _("Some of what was sent cannot be used. The fields are named below."),
    "leads_outside": _("This is a link that leads out of the folder, so it is not followed."),
    "name_taken": _("This name is taken. Choose another."),
    "no_app_host": _(
        "Apps have no address of their own here. Ask an administrator to set TESSERA_APPS_URL to a wildcard host."
    ),
    "no_room": _("There is no room for it: %(used)s of %(limit)s are used or promised. Delete something first."),
    "not_a_file": _("This is no file, so it has no content. Open it in a terminal."),
    "not_an_image": _("This is no picture that can be shown here. Download it instead."),
    "not_found": _("There is no such thing, or none that you may see. Check the address and your team."),
    "not_permitted": _("You may see this, but not do that to it. Ask a lead of the team or an administrator."),
    "not_running": _("%(name)s is not running, so nobody can enter it. Wait until it runs, or start it again."),
    "not_running.assigned": STARTS_NOW,
    "not_running.pending": WAITS_YET,
    "not_running.queued": WAITS_YET,
    "not_running.starting": STARTS_NOW,
    "not_signed_in": _("You are not signed in. Sign in, or send a token."),
    "notebook_started": _("%(name)s is started. Stop it first, then delete it."),
    "notebooks_failed": _(
        "The environment for notebooks could not be prepared. It is tried again when Tessera is started; the reason is "
        "shown to administrators."
    ),
    "notebooks_preparing": _(
        "The environment for notebooks is still being prepared. Try again in a minute; all else works."
    ),
    "only_ended_jobs": _("Only a job that has ended can be tried again. Stop it first, or wait for its end."),
    "only_running_jobs": _("Only what runs can be given another size. Wait until it runs, or submit it anew."),
    "only_waiting_jobs": _("Only a waiting job can be held, and this one has left the queue. Stop it instead."),
    "page_expired": _("This page stood open while you signed in or out elsewhere. Reload it and try again."),
    "range_outside": _("The range lies outside the file, which has %(size)s bytes."),
    "resize_above_card": _(
        "%(asked)s is not less than its whole card, which has %(largest)s. Ask for less, or submit it anew for a whole "
        "card."
    ),
    "resize_below_use": _(
        "%(task)s uses %(used)s of GPU memory, so its slice cannot be made %(asked)s. Ask for more than that, or let "
        "it free some first."
    ),
    "resize_by_mps": _(
        "It runs by MPS, whose limit was set at its start: its slice can become smaller, and no larger. Submit it anew."
    ),
    "resize_kept_otherwise": _(
        "Its card holds slices by “%(mode)s”, whose limits are set at a task's start. Submit it anew with the size "
        "that you need."
    ),
    "resize_no_card": _("It has no GPU, so there is no slice to resize. Submit it anew with what you need."),
    "resize_no_room": _(
        "%(gpu)s has %(free)s of memory free, and this takes %(asked)s more. Ask for less, or wait until somebody on "
        "the card ends."
    ),
    "resize_not_here": _(
        "Slices keep the size that they started with on this cluster: its machines count a card's memory by what a "
        "task was started with. Submit the job anew with the size that you need."
    ),
    "resize_under_way": _("Its slice is being resized already. Look again in a moment."),
    "resize_whole_card": _("It has whole cards, which cannot be resized. Submit it anew with what you need."),
    "stale_state": _(
        "Somebody else changed this a moment ago. Look again and repeat what you wanted, if it still makes sense."
    ),
    "tensorboard_failed": _("TensorBoard did not come up in this job: %(words)s"),
    "too_large": _("This is larger than may be sent. Send less."),
    "too_many_requests": _("Too many requests in a short time. Wait %(retry_after_s)s seconds and try again."),
    "too_many_streams": _(
        "You have %(limit)s event streams open already. Close one, or read several topics from one stream."
    ),
    "unavailable": _("Something that is needed does not answer at the moment. Try again shortly."),
    "upload_busy": _("Another piece of this upload is being written. Wait for its end, then go on."),
    "upload_too_long": _("More was sent than the upload said at its start. Begin it anew with the right size."),
    "user_limit": _(
        "You are at your limit: %(used)s of %(limit)s. Stop something or wait for it to end, or ask a lead for more."
    ),
    "webhook_off": _("This webhook is switched off. Switch it on first."),
    "wrong_offset": _("This is not where the upload ends. Go on from byte %(offset)s."),
}


def field_words(error: FieldError) -> str:
    """Return the sentence for one field."""
    params = _Params(error.params)
    for key in ("expected", "got"):
        if error.code == "wrong_type" and params[key] in KIND_WORDS:
            params[key] = str(KIND_WORDS[params[key]])
    resource = error.pointer.strip("/").removesuffix("_guarantee").removesuffix("_limit")
    shown = _Params(show_params(params, about=resource), field=field_name(error.pointer))
    return str(_variant(error)) % shown


def error_words(error: PlatformError) -> str:
    """Return the sentence for an error."""
    state = f"{error.code}.{error.params.get('state')}"
    words = ERROR_WORDS.get(state) or ERROR_WORDS.get(error.code, ERROR_WORDS["internal"])
    return str(words) % _Params(error.params)


def refusal_words(error: PlatformError) -> str:
    """Return an error in one line."""
    fields = [field_words(one) for one in getattr(error, "errors", [])]
    return " ".join(fields) or error_words(error)


def field_name(pointer: str) -> str:
    """Return a JSON pointer as people write it: "/env/A~1B" is "env.A/B"."""
    parts = (part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
    return shorten(".".join(parts), 80) or str(_("The file"))


def _variant(error: FieldError) -> object:
    params = error.params
    names = ["near"] if params.get("did_you_mean") else []
    names += ["none"] if not params.get("largest", 1) or params.get("known") == "" else []
    names += [params[key] for key in ("feature", "resource") if key in params]
    keys = [*(f"{error.code}.{name}" for name in names), error.code]
    return next((FIELD_WORDS[key] for key in keys if key in FIELD_WORDS), FIELD_WORDS["invalid"])


class _Params(dict):
    def __missing__(self, key):
        return "?"

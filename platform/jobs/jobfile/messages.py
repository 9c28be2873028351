"""Sentences for what is wrong in a job file."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "alias": _("An alias (*%(name)s) is not allowed in a job file. Write the value out in full."),
    "anchor": _("An anchor (&%(name)s) is not allowed in a job file. Remove it and write each value out in full."),
    "bad_code": _(
        "“%(got)s” names no code. Write a dot for this directory, or the digest of a pack that was uploaded."
    ),
    "bad_data": _(
        "“%(got)s” names no files. Write home:path or team:path, and :ro behind it for reading only, such as "
        "team:datasets/imagenet:ro."
    ),
    "bad_data_target": _(
        "Files cannot be put at “%(got)s”. Write a path beneath the work directory, such as data/imagenet."
    ),
    "bad_directory": _("“%(got)s” is no directory. Write a path such as runs, or ~/runs in your home."),
    "bad_env_name": _("“%(got)s” is no name of a variable. Use letters, digits and underscores, and no digit first."),
    "bad_image": _("“%(got)s” is no name of an image. Write it like registry/name:tag."),
    "bad_label_name": _(
        "“%(got)s” is no name of a label. Use up to 63 letters, digits, dots, slashes, dashes and underscores."
    ),
    "bad_role_name": _(
        "“%(got)s” is no name of a role. Use up to 31 small letters, digits, dashes and underscores, with a "
        "letter first."
    ),
    "bad_span": _("“%(got)s” is no range. Write the smaller number first, such as 4..8, or one number."),
    "beside_roles": _(
        "Each role says its own “%(key)s”, so it cannot stand beside them. Move it into the roles that it is meant for."
    ),
    "data_twice": _("Files are put at %(target)s twice. Remove one of the two, or choose another path."),
    "duplicate_key": _("“%(key)s” is written twice. Keep one of the two."),
    "empty": _("There is nothing in this job file. Write at least a line such as “run: python train.py”."),
    "file_too_large": _(
        "The job file is larger than %(max)s bytes. Move data and long scripts into the code directory."
    ),
    "given_twice": _("“%(key)s” is given for the role and “%(other)s” for the whole job. Keep one of the two."),
    "json_syntax": _("This is no valid JSON: the mistake is near line %(line)s, column %(column)s. Correct it there."),
    "key_not_text": _("A key must be one word. Write “key: value” with plain text before the colon."),
    "merge_key": _("The merge key << is not allowed in a job file. Write the keys out in full."),
    "not_a_map": _("A job file is a list of “key: value” lines. Begin with a line such as “run: python train.py”."),
    "not_a_number": _("%(field)s is infinite or not a number. Write a number."),
    "not_utf8": _("The job file is not UTF-8: byte %(byte)s cannot be read. Save it as UTF-8."),
    "port_twice": _("Port %(port)s stands there twice. Write it once."),
    "reserved_name": _(
        "The variable %(name)s is set by the platform. Remove it, or set another one inside your command."
    ),
    "role_twice": _(
        "The roles %(other)s and %(role)s differ in a dash only, and would have the same variables. Rename one of them."
    ),
    "several_documents": _(
        "A job file holds one job. Remove the line with three dashes, and submit each job by itself."
    ),
    "tab": _("There is a tab on line %(line)s where YAML wants spaces. Replace the tab by spaces."),
    "tag": _("A tag (“%(name)s”) is not allowed in a job file. Remove it and write the plain value."),
    "time_above_max": _(
        "The estimate time (%(time)s) is above the limit max_time (%(max_time)s). Lower the one or raise the other."
    ),
    "too_deep": _("The file is nested more than %(max)s levels deep. Make it flatter."),
    "too_many_nodes": _("The file holds more than %(max)s values. Move long lists into a file of your code."),
    "too_many_tasks": _("The roles have %(got)s tasks together. Ask for %(max)s at most."),
    "unknown_key": _("“%(key)s” is not a key of the job file. Remove it, or look it up in the documentation."),
    "unknown_key.near": _("“%(key)s” is not a key of the job file. Did you mean “%(did_you_mean)s”?"),
    "workdir_outside": _("“%(got)s” lies outside the code. Write a path below its top, such as src/train."),
    "yaml_syntax": _(
        "This is no valid YAML near line %(line)s, column %(column)s (%(problem)s). Check quotes, colons and "
        "indentation there."
    ),
}

"""Sentences for what is wrong in a job file."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "alias": _("An alias (*%(name)s) is not allowed in a job file. Write the value out in full."),
    "anchor": _("An anchor (&%(name)s) is not allowed in a job file. Remove it and write each value out in full."),
    "array_from_zero": _(
        "“%(got)s” does not begin with 0. Write how many elements there are, such as 100 or 0..99, or name the range: "
        "{n: %(got)s}."
    ),
    "array_held": _(
        "An array or a sweep cannot be held. Remove hold, or set start_at to let its elements start later."
    ),
    "array_name_twice": _("%(name)s is in %(of)s and in %(key)s. Keep one of the two."),
    "array_too_large": _("The array has %(got)s elements. Take some values away, so that at most %(max)s are left."),
    "array_without_values": _("The array has no values. Name some, such as {lr: [1e-4, 3e-4]}, or write how many."),
    "bad_array": _(
        "“%(got)s” is not an array. Write how many elements there are, such as 100, or values by name, such as "
        "{lr: [1e-4, 3e-4], seed: 1..5}."
    ),
    "bad_array_values": _(
        "“%(got)s” are not values of an array. Write a list, such as [1e-4, 3e-4], or a range: 1..5."
    ),
    "bad_code": _(
        "“%(got)s” is not valid code. Use a dot for this directory, the digest of an uploaded archive, or a "
        "repository, such as git+https://github.com/team/project@main."
    ),
    "bad_data": _(
        "“%(got)s” is not a valid source of files. Write home:path, team:path or volume:name/path, with :ro at the end "
        "for read-only, such as team:datasets/imagenet:ro; or the name of a dataset, such as dataset:corpus@v7."
    ),
    "bad_data_target": _(
        "Files cannot be placed at “%(got)s”. Use a path below the working directory, such as data/imagenet."
    ),
    "bad_dataset": _(
        "“%(got)s” is not a name of a dataset or model. Write dataset:corpus, dataset:corpus@v7, "
        "model:bert@prod for the version at a stage, or dataset:team/corpus@v7 for one of another team; datasets are "
        "always read-only."
    ),
    "bad_directory": _("“%(got)s” is not a valid directory. Use a path such as runs, or ~/runs in your home."),
    "bad_environment": _(
        "“%(got)s” is not a name of an environment. Write sd-train, sd-train@3 for one version, or team/sd-train@3 "
        "for one of another team."
    ),
    "bad_factor": _("“%(got)s” is not a factor. Write how many times as much, up to 99x, such as 1.5x."),
    "bad_git": _(
        "“%(got)s” is not a repository. Write git+https://host/path@ref, where ref is a branch, a tag or a commit, "
        "such as git+https://github.com/team/project@main; a token for it is a secret, not a part of the address."
    ),
    "bad_http_path": _("“%(got)s” is not the path of a request. Begin with a slash, such as /health."),
    "bad_image": _("“%(got)s” is not a valid image name. Write it like registry/name:tag."),
    "bad_label_name": _(
        "“%(got)s” is not a valid label name. Use up to 63 letters, digits, dots, slashes, dashes and underscores."
    ),
    "bad_metric": _(
        "A metric is the name of a number that the trials report, such as loss. Write up to 64 characters."
    ),
    "bad_moment": _(
        "“%(got)s” is not a moment. Write the date, the time and the offset from UTC, such as 2027-01-05T22:00+08:00."
    ),
    "bad_output": _(
        "“%(got)s” cannot be what a job leaves. Write model:NAME, dataset:NAME or environment:NAME, without a team and "
        "a version: it becomes the next one of your team's."
    ),
    "bad_parameter": _(
        "“%(got)s” is not a parameter of a search. Write a list of values, such as [sgd, adam], or a range of numbers, "
        "such as 1..5 or 1e-5..1e-1 log."
    ),
    "bad_percent": _("“%(got)s” is not a share of requests. Write percents with at most one decimal, such as 0.5%%."),
    "bad_role_name": _(
        "“%(got)s” is not a valid role name. Use up to 31 lower-case letters, digits, dashes and underscores, "
        "and begin with a letter."
    ),
    "bad_rungs": _("Rungs are up to %(max)s rising steps of the metric. Write a list, such as [3, 9, 27]."),
    "bad_share": _("“%(got)s” is not what a canary may get. Write whole percents from 1%% to 50%%, such as 10%%."),
    "bad_span": _("“%(got)s” is not a valid range. Write the smaller number first, such as 4..8, or one number."),
    "bad_volume": _(
        "“%(got)s” is not a folder of a volume. Write volume:name or volume:name/path, such as volume:imagenet/train."
    ),
    "beside_roles": _(
        "“%(key)s” is set by each role, so it cannot be set for the whole job. Move it into the roles that need it."
    ),
    "data_twice": _("Two entries put files at %(target)s. Remove one of them, or choose another path."),
    "duplicate_key": _("“%(key)s” appears twice. Keep one of the two."),
    "empty": _("This job file is empty. Write at least one line, such as “run: python train.py”."),
    "empty_interval": _("“%(got)s” is no range. Write the smaller number first, such as 0.1..0.9."),
    "environment_output": _(
        "An environment is left from the folder env, by a job that uses none. Write env: %(name)s, and take "
        "environment out of the file."
    ),
    "file_too_large": _(
        "The job file is larger than %(max)s bytes. Move data and long scripts into the code directory."
    ),
    "given_twice": _("“%(key)s” is set for the role and “%(other)s” for the whole job. Keep one of the two."),
    "grid_interval": _(
        "A grid tries all values, and %(got)s has too many. Write a list, such as [1e-4, 3e-4], or search by random or "
        "tpe."
    ),
    "grid_too_large": _(
        "The grid has %(got)s combinations. Take some values away so that at most %(max)s are left, set trials, or "
        "search by random or tpe."
    ),
    "json_syntax": _("This is not valid JSON: there is an error near line %(line)s, column %(column)s. Fix it there."),
    "key_not_text": _("A key must be a single word. Write “key: value” with plain text before the colon."),
    "log_of_zero": _("“%(got)s” reaches zero, which has no order of magnitude. Begin above zero, or remove log."),
    "main_ends_job": _(
        "The main program runs in role “%(role)s” and ends the job. Remove ends_job of the role, or write "
        "ends_job: false below main."
    ),
    "main_without_roles": _(
        "main runs beside the command of a role, and this job has no roles. Write the command as run, or name roles."
    ),
    "merge_key": _("The merge key << is not allowed in a job file. Write the keys out in full."),
    "no_replicas": _("A service needs at least one replica at most. Write 1, or a range such as 0..4."),
    "not_a_map": _("A job file consists of “key: value” lines. Begin with a line such as “run: python train.py”."),
    "not_a_number": _("%(field)s is infinite or not a number. Use a number."),
    "not_in_service": _(
        "“%(key)s” is not for services: each replica is one task that lasts until it is not needed. Remove it."
    ),
    "not_utf8": _("The job file is not UTF-8: byte %(byte)s cannot be read. Save it as UTF-8."),
    "notebook_not_here": _("A notebook has no job file. Start one under Notebooks, or with “tessera nb start NAME”."),
    "only_asha": _("“%(key)s” is for method: asha. Remove it, or write method: asha."),
    "output_twice": _("Two folders are to become the next version of %(name)s. Remove one, or name another."),
    "port_twice": _("Port %(port)s appears twice. Keep one of the two."),
    "role_twice": _(
        "The roles %(other)s and %(role)s differ only in a dash and would have the same variables. Rename one of them."
    ),
    "search_beside_array": _("A file has an array or a search. Keep one of the two."),
    "secret_in_env": _("%(name)s is in secrets and in env. Keep one of the two; the secret is not shown to anybody."),
    "serve_without_service": _(
        "serve says how a service answers, and this is a job. Write kind: service, or remove it."
    ),
    "several_documents": _(
        "A job file describes one job. Remove the line with three dashes, and submit each job separately."
    ),
    "tab": _("Line %(line)s has a tab where YAML needs spaces. Replace the tab with spaces."),
    "tag": _("A tag (“%(name)s”) is not allowed in a job file. Remove it and write the plain value."),
    "time_above_max": _(
        "The estimated time (%(time)s) is above the limit max_time (%(max_time)s). Lower time or raise max_time."
    ),
    "too_deep": _("The file is nested more than %(max)s levels deep. Reduce the nesting."),
    "too_many_nodes": _("The file has more than %(max)s values. Move long lists into a file of your code."),
    "too_many_tasks": _("The roles have %(got)s tasks in total. Ask for at most %(max)s."),
    "unknown_key": _("“%(key)s” is not a key of the job file. Remove it, or check the documentation."),
    "unknown_key.near": _("“%(key)s” is not a key of the job file. Did you mean “%(did_you_mean)s”?"),
    "unknown_role": _("There is no role “%(got)s” in this job. Its roles: %(known)s."),
    "workdir_outside": _("“%(got)s” is outside the code. Use a path below its top, such as src/train."),
    "yaml_syntax": _(
        "This is not valid YAML near line %(line)s, column %(column)s (%(problem)s). Check quotes, colons and "
        "indentation there."
    ),
}

"""Sentences for the errors of jobs."""

from django.utils.translation import gettext_lazy as _

BUDGET_SPENT = _(
    "The team %(team)s has %(left)s of its %(budget)s GPU hours of high priority left this week in pool %(pool)s, "
    "and this asks for %(asked)s. Use normal priority, give a shorter time, or wait until %(refills_at)s."
)

FIELD_MESSAGES = {
    "array_not_here": _(
        "One job is made here, and an array or a sweep is many. Submit the file under Jobs or with tessera submit, or "
        "remove %(key)s."
    ),
    "choose_team": _("You are in several teams. Set team to one of them: %(known)s."),
    "code_not_uploaded": _(
        "“code: .” means your current directory, which only the command line can read. Upload the code in the "
        "form, or submit with tessera."
    ),
    "code_of_role_here": _(
        "A role's code cannot be a dot. Set code: . for the whole job, or name a repository or an uploaded archive "
        "here."
    ),
    "dependency_ended": _(
        "%(job)s has ended as %(state)s, so it never ends with “%(condition)s”. Name another job, or retry that one "
        "first."
    ),
    "dependency_outputs_alike": _(
        "%(job)s and %(other)s both leave outputs that would be in %(variable)s, as their names are alike. Give one of "
        "them another name, or start after one of them."
    ),
    "dependency_twice": _("%(job)s is named twice, with different conditions. Keep one of the two."),
    "git_denied": _(
        "%(url)s is not there, or is not open to everybody (HTTP %(status)s). Check the address; for a private "
        "repository, set a token as secret %(secret)s and name it under secrets."
    ),
    "git_forbidden": _(
        "%(url)s is in a private network or uses an unusual port, so the platform does not ask it. Write the whole "
        "commit instead of %(ref)s, or ask an administrator to allow its network."
    ),
    "git_refused": _(
        "%(url)s did not answer as a Git server (HTTP %(status)s). Check the address; some servers want .git at its "
        "end."
    ),
    "git_token_in_clear": _(
        "The secret %(secret)s would be sent without encryption. Use a git+https:// address, or take the secret out."
    ),
    "git_too_many_refs": _(
        "%(url)s has more branches and tags than can be read. Write the whole commit instead of %(ref)s."
    ),
    "git_unknown_ref": _(
        "%(url)s has no branch or tag %(ref)s. Check its name, or write a whole commit of 40 characters."
    ),
    "git_unreachable": _(
        "%(url)s did not answer, so nobody knows which commit %(ref)s is. Try again, or write the whole commit."
    ),
    "grace_beyond_pool": _(
        "Pool %(pool)s gives a job at most %(max)s for its checkpoint, not %(got)s. Lower the grace period, or "
        "choose another pool."
    ),
    "image_of_environment": _(
        "The environment %(name)s runs in the image in which it was made, %(known)s. Take image out of the file, or "
        "choose another environment."
    ),
    "image_of_environment.none": _(
        "The environment %(name)s was made without an image, for the machines' own Python. Take image out of the file, "
        "or choose another environment."
    ),
    "impossible_cpu_milli": _(
        "No node in pool %(pool)s can give one task %(asked)s CPU cores. Ask for at most %(largest)s."
    ),
    "impossible_cpu_milli.none": _(
        "No node in pool %(pool)s can give a task CPU cores. Choose another pool, or ask an administrator to "
        "add a node."
    ),
    "impossible_gpu_instance": _(
        "An instance of a card is given as a whole to one task, and only to jobs that name its model. In pool "
        "%(pool)s, ask for %(largest)s."
    ),
    "impossible_gpu_memory_mib": _(
        "No card in pool %(pool)s has %(asked)s of GPU memory for one slice. Ask for at most %(largest)s, or for "
        "a whole card."
    ),
    "impossible_gpu_milli": _("Pool %(pool)s can never give %(asked)s GPUs to one job. Ask for at most %(largest)s."),
    "impossible_gpu_model": _("Pool %(pool)s has no %(asked)s card. Ask for one of its models: %(largest)s."),
    "impossible_gpu_model.none": _("Pool %(pool)s has no %(asked)s card. Choose another pool, or leave out the GPU."),
    "impossible_gpu_sharing": _(
        "Pool %(pool)s gives out whole cards only, so a fraction (%(asked)s) is not possible there. Ask for 1, "
        "or choose a shared pool."
    ),
    "impossible_gpus": _(
        "No node in pool %(pool)s has %(asked)s such GPUs; the largest has %(largest)s. Ask for at most "
        "%(largest)s, or spread the job over more nodes."
    ),
    "impossible_gpus.none": _("Pool %(pool)s has no GPU. Choose another pool, or leave out the GPU."),
    "impossible_memory_mib": _(
        "No node in pool %(pool)s can give one task %(asked)s of memory. Ask for at most %(largest)s."
    ),
    "impossible_memory_mib.none": _(
        "No node in pool %(pool)s can give a task memory. Choose another pool, or ask an administrator to add a node."
    ),
    "impossible_node": _(
        "No single node in pool %(pool)s could hold all %(asked)s tasks: the largest has room for %(largest)s. Write "
        "prefer: node instead of same: node, or ask for fewer tasks."
    ),
    "impossible_node.none": _(
        "No single node in pool %(pool)s could hold all %(asked)s tasks together. Write prefer: node instead of same: "
        "node, or ask for fewer tasks."
    ),
    "impossible_rdma": _(
        "No node in pool %(pool)s has an RDMA adapter with a link. Choose another pool, or leave rdma out."
    ),
    "impossible_switch": _(
        "No switch in pool %(pool)s could hold all %(asked)s tasks: the largest has room for %(largest)s. Write "
        "prefer: switch instead of same: switch, or ask for fewer tasks."
    ),
    "impossible_switch.none": _(
        "No switch in pool %(pool)s could hold all %(asked)s tasks together. Write prefer: switch instead of same: "
        "switch, or ask for fewer tasks."
    ),
    "impossible_switch_unknown": _(
        "Nobody has said to which switch any node of pool %(pool)s is connected. Write prefer: switch instead of "
        "same: switch, or ask an administrator to set the switches of the nodes."
    ),
    "impossible_tasks": _(
        "Only %(largest)s of the %(asked)s tasks fit into pool %(pool)s at the same time, even when it is empty. "
        "Ask for at most %(largest)s nodes, or for less on each node."
    ),
    "impossible_tasks.none": _(
        "None of the %(asked)s tasks fits into pool %(pool)s, even when it is empty. Ask for less on each node."
    ),
    "log_is_followed_whole": _(
        "A log that is followed comes whole and as it was written. Leave out follow, or search and timestamps."
    ),
    "no_containers": _(
        "This installation cannot run images. Leave out image, or ask an administrator: the machine's page says what "
        "is missing, such as “apt install podman”."
    ),
    "no_quota": _(
        "The team %(team)s has no quota in pool %(pool)s. Choose one of its pools (%(known)s), or ask an "
        "administrator for quota."
    ),
    "no_quota.none": _(
        "The team %(team)s has no quota in pool %(pool)s or in any other pool. Ask an administrator for quota."
    ),
    "no_quota_at_all": _("The team %(team)s has no quota in any pool. Ask an administrator for quota."),
    "no_such_task": _("This job has no running task “%(got)s”. Write it like main.0, or leave it out for all tasks."),
    "no_team": _(
        "You are not in a team yet, and every job belongs to one. Ask an administrator for an invitation to a team."
    ),
    "not_a_slice": _(
        "“%(got)s” is not a valid slice of a card. Use a fraction such as 1/2, or an amount such as 12GB."
    ),
    "not_in_team": _("“%(name)s” is no active member of team %(team)s. Name people of the team by their user names."),
    "outputs_not_permitted": _(
        "In team %(team)s you may not add datasets and models. Leave outputs out, or ask a lead to make you a member."
    ),
    "place_empty": _("Write what the tasks share: same: switch, prefer: switch, or the same with node."),
    "place_needless": _("Tasks that share one %(same)s share this, too. Leave prefer out."),
    "priority_budget_spent": BUDGET_SPENT,
    "priority_needs_consent": _(
        "In pool %(pool)s, %(priority)s priority needs the consent of a lead of the team %(team)s: %(leads)s. Submit "
        "it with normal priority, and ask one of them to raise it while it waits."
    ),
    "priority_needs_consent_of_admin": _(
        "In pool %(pool)s, %(priority)s priority needs the consent of a lead of the team %(team)s, which has none. "
        "Submit it with normal priority, and ask an administrator to raise it while it waits."
    ),
    "rate_policy": _(
        "Your limit is %(limit)s running jobs, so this one could never start. Ask an administrator for a higher limit."
    ),
    "service_not_here": _(
        "This file is of a service, and a job is made here. Create it under Services or with tessera serve."
    ),
    "shm_above_memory": _(
        "What is in /dev/shm counts as memory: %(shm)s of it do not fit into %(memory)s of memory. Ask for more memory."
    ),
    "start_too_far": _("%(got)s is more than a year ahead. Choose a moment before %(latest)s."),
    "team_limit": _(
        "The team %(team)s may hold at most %(limit)s %(resource)s in pool %(pool)s, but this asks for "
        "%(asked)s. Ask for less, or for a higher limit."
    ),
    "team_limit.memory_mib": _(
        "The team %(team)s may hold at most %(limit)s of memory in pool %(pool)s, but this asks for %(asked)s. "
        "Ask for less, or for a higher limit."
    ),
    "unknown_code": _(
        "You have not uploaded code with the digest “%(digest)s”. Upload it first, or submit from its directory "
        "with tessera."
    ),
    "unknown_dataset": _(
        "There is no %(name)s that you may read and that has a version. Look at its name and team under Data; another "
        "team's is written dataset:team/name."
    ),
    "unknown_dataset_stage": _("There is no %(name)s. Its stages are: %(known)s."),
    "unknown_dataset_stage.none": _(
        "There is no %(name)s, for it has no stages. Name a version, such as %(newest)s, or set a stage under Data."
    ),
    "unknown_dataset_version": _("There is no %(name)s. The newest version is %(newest)s."),
    "unknown_dependency": _(
        "There is no job “%(name)s” that you see. Write its id, such as job-12, or the name of one of your own jobs in "
        "the team %(team)s."
    ),
    "unknown_environment": _(
        "You can use no environment %(name)s. Look at the page Environments for the names of those that you may use."
    ),
    "unknown_own_secret": _(
        "You have no secret %(name)s. Make it under Secrets, or with: tessera secrets set %(name)s."
    ),
    "unknown_pool": _("There is no pool “%(pool)s”. Choose one of: %(known)s."),
    "unknown_pool.none": _(
        "There is no pool “%(pool)s”, and the team %(team)s has no quota in any pool. Ask an administrator for quota."
    ),
    "unknown_secret": _(
        "Neither you nor the team %(team)s have a secret %(name)s. Make it under Secrets, or with: tessera secrets set "
        "%(name)s."
    ),
    "unknown_team": _("You are not in a team “%(team)s”. Choose one of yours: %(known)s."),
    "unknown_team.none": _(
        "You are not in a team yet, and every job belongs to one. Ask an administrator for an invitation to a team."
    ),
    "unknown_team_secret": _(
        "The team %(team)s has no secret %(name)s. One of its leads makes it under Secrets, or with: "
        "tessera secrets set %(name)s --team %(team)s."
    ),
    "unknown_volume": _("Your team has no volume “%(name)s”. It has: %(known)s."),
    "unknown_volume.none": _("There is no volume “%(name)s”. Administrators name them in the console."),
    "user_limit": _(
        "You may hold at most %(limit)s %(resource)s, but this asks for %(asked)s. Ask for less, or for a higher limit."
    ),
    "user_limit.memory_mib": _(
        "You may hold at most %(limit)s of memory, but this asks for %(asked)s. Ask for less, or for a higher limit."
    ),
}
WAITS_YET = _("%(name)s is waiting in the queue. You can connect to it as soon as it is running.")
STARTS_NOW = _("%(name)s is starting. Try again in a moment.")
ERROR_MESSAGES = {
    "array_full": _(
        "As many elements of %(array)s are open as may be at once, %(at_once)s. Wait until one ends, or retry the "
        "array: it queues its elements again as there is room."
    ),
    "array_nothing_to_retry": _("No element of %(array)s is left to be queued again. Submit the file again instead."),
    "dataset_in_use": _(
        "Jobs that have yet to end use version %(version)s: %(jobs)s. Wait until they end, or cancel them first."
    ),
    "dependency_ended": _(
        "It starts after %(job)s, which has ended as %(state)s and not with “%(condition)s”, so it would be cancelled "
        "again. Retry that job first."
    ),
    "not_changeable": _("“%(key)s” of a waiting job cannot be changed; %(known)s can. Submit a copy instead."),
    "not_running": _(
        "%(name)s is not running, so you cannot connect to it. Wait until it is running, or start it again."
    ),
    "not_running.assigned": STARTS_NOW,
    "not_running.pending": WAITS_YET,
    "not_running.queued": WAITS_YET,
    "not_running.starting": STARTS_NOW,
    "nothing_to_change": _("Name what is to change: %(known)s."),
    "only_batch_jobs_change": _("The job of a notebook or service cannot be changed. Change that instead."),
    "only_batch_jobs_rerun": _("The job of a notebook or service cannot be run again. Start that instead."),
    "only_ended_jobs": _("Only a job that has ended can be retried. Stop it first, or wait until it ends."),
    "only_lost_tasks": _(
        "This job has no such lost task, so there is nothing to settle. Stop the job if it is to end."
    ),
    "only_running_jobs": _("Only a running job can be resized. Wait until it is running, or submit it again."),
    "only_waiting_jobs": _("Only a waiting job can be held, and this one has left the queue. Stop it instead."),
    "only_waiting_jobs_change": _(
        "Only a waiting job can be changed, and this one has left the queue. Submit a copy instead."
    ),
    "output_is_empty": _("The job left nothing in the folder that was to become the next version of %(name)s."),
    "priority_budget_spent": BUDGET_SPENT,
    "priority_needs_consent": _(
        "In pool %(pool)s, %(priority)s priority needs the consent of a lead of the team %(team)s, or of an "
        "administrator. Ask one of them, or use normal priority."
    ),
    "resize_above_card": _(
        "%(asked)s is not less than the whole card, which has %(largest)s. Ask for less, or submit it again for "
        "a whole card."
    ),
    "resize_below_use": _(
        "%(task)s uses %(used)s of GPU memory, so its slice cannot be resized to %(asked)s. Ask for more, or let "
        "it free some memory first."
    ),
    "resize_by_mps": _(
        "This job runs with MPS, whose limit is set at the start: its slice can shrink but not grow. Submit it again."
    ),
    "resize_kept_otherwise": _(
        "The card enforces slices by “%(mode)s”, whose limits are set when a task starts. Submit the job again "
        "with the size that you need."
    ),
    "resize_no_card": _("This job has no GPU, so there is no slice to resize. Submit it again with what you need."),
    "resize_no_room": _(
        "%(gpu)s has %(free)s of memory free, and this needs %(asked)s more. Ask for less, or wait until another "
        "task on the card ends."
    ),
    "resize_not_here": _(
        "Slices keep their size on this cluster: its machines count GPU memory by what a task was started with. "
        "Submit the job again with the size that you need."
    ),
    "resize_under_way": _("The slice is already being resized. Check again in a moment."),
    "resize_whole_card": _("This job has whole cards, which cannot be resized. Submit it again with what you need."),
    "settle_silent_node": _(
        "Nothing is heard of the machine %(node)s, so nobody knows what runs there. Start it again, or remove it from "
        "the cluster if it is gone for good, and then settle the task."
    ),
    "tensorboard_failed": _("TensorBoard did not start in this job: %(words)s"),
    "user_limit.jobs_waiting": _(
        "You are at your limit of waiting jobs, %(used)s of %(limit)s: %(holders)s. Stop one of them, wait until one "
        "starts, or ask an admin for a higher limit."
    ),
    "user_limit.jobs_waiting.none": _("Your limit of waiting jobs is 0. Ask an admin for a higher limit."),
    "volume_in_use": _("Jobs that have yet to end use %(name)s: %(jobs)s. Wait until they end, or cancel them first."),
}

# The key by which the tasks of a person's jobs let each other in, in the home that they share. The first makes it.
key="$HOME/.ssh/tessera_jobs"
if [ ! -f "$key" ]; then
  (
    umask 077
    mkdir -p "$HOME/.ssh"
    new=$(mktemp -d "$HOME/.ssh/new.XXXXXX")
    ssh-keygen -q -t ed25519 -N '' -C 'between the tasks of my jobs' -f "$new/key"
    ln "$new/key" "$key" 2>/dev/null || true # two at once: the first one's stays
    rm -rf "$new"
  )
fi

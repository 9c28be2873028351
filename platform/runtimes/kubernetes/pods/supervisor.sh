# The first process of a task's container, in any POSIX shell. It runs the task, asks it for a checkpoint before its end,
# ends it when its time is up, and tells the kubelet why it ended in the container's termination message.
#
# $1 text to run   $2 where it works   $3 most seconds, 0 = no limit   $4 seconds between SIGTERM and SIGKILL
# $5 number of the checkpoint's signal, 0 = none   $6 seconds for the checkpoint   $7 where checkpoints are, "" = none
# $8 where the message goes, "" = the kubelet's usual place   $9 names of other tasks that it needs
# ${10} where the code is unpacked   ${11} its archive, "" = none
# then of each folder of data, which is linked: umask to make it with   where it is   how the task sees it   the link
#
# Once told to end, it waits PATIENCE before it asks for a checkpoint: the kubelet gives two seconds even where nobody
# has any patience, so a task of those is gone by then.
PATIENCE=3
MEET=300 # seconds until it no longer waits for the names of others: its own words say more then
[ $$ = 1 ] || exit 70 # it signals everybody whom it can: nobody but a container's own processes may be there
run=$1 cwd=$2 most=$3 grace=$4 signal=$5 save=$6 folder=$7 message=${8:-/dev/termination-log} needs=$9
shift 9
rang= cause= alarm=
trap 'rang=stop' TERM
trap 'rang=time' ALRM

tell() { printf 'tessera cause=%s saved=%s\n' "$cause" "$(newest)" 2>/dev/null >"$message"; }

newest() { # when something last changed where the checkpoints are, in seconds since 1970
  [ -n "$folder" ] && [ -d "$folder" ] || return 0
  find "$folder" -mindepth 1 -exec stat -c %Y {} + 2>/dev/null | sort -n 2>/dev/null | tail -n 1
}

arm() { # ring in so many seconds
  [ -z "$alarm" ] || kill -KILL "$alarm" 2>/dev/null
  (sleep "$1" && kill -ALRM $$) &
  alarm=$!
}

ask() { # send the signal to each process that listens for it; fails where nobody does
  listens=1
  for status in /proc/[0-9]*/status; do
    pid=${status#/proc/} pid=${pid%/status} caught=
    [ "$pid" -gt 1 ] && [ "$pid" != "$alarm" ] || continue
    while read -r key value; do
      [ "$key" != SigCgt: ] || { caught=$value && break; }
    done 2>/dev/null <"$status"
    [ -n "$caught" ] || continue
    caught=${caught#????????} # the lower half: signals 1 to 32
    if [ $((0x$caught >> (signal - 1) & 1)) = 1 ]; then kill -"$signal" "$pid" 2>/dev/null && listens=0; fi
  done
  return $listens
}

save_then_end() {
  if [ "$signal" != 0 ] && ask; then
    step=saves
    arm "$save"
  else
    end $((save > grace ? save : grace))
  fi
}

end() { # a stop has the kubelet's own deadline
  tell
  step=ends
  kill -TERM -1 2>/dev/null
  [ "$cause" = stopped ] || arm "$1" # after it: it would end the alarm too
}

meet() { # wait until each of these names has an address; without getent nobody here can tell
  command -v getent >/dev/null || return 0
  left=$MEET
  for name in $1; do
    until [ -n "$rang" ] || getent ahosts "$name" >/dev/null 2>&1; do
      [ "$left" -gt 0 ] || { echo "tessera: $name has no address after $MEET s." >&2 && return 0; }
      sleep 1
      left=$((left - 1))
    done
  done
}

fail() {
  echo "tessera: $1" >&2
  cause=start_failed
  tell
  exit 1
}

link_data() { # an empty folder gives way; anything else that is there stays, and the task does not start
  (umask "$1" && mkdir -p "$2") && mkdir -p "${4%/*}" && { [ ! -d "$4" ] || rmdir "$4"; } && ln -s "$3" "$4"
}

become() { # the task, with the variables that it has of secrets; a secret may be called as one of ours, but for TESSERA_
  for TESSERA_NAME in $TESSERA_SECRET_VARIABLES; do # what $() drops at the end, the x keeps
    TESSERA_VALUE=$(cat "$TESSERA_SECRETS/$TESSERA_NAME" && echo x) || exit 127
    export "$TESSERA_NAME=${TESSERA_VALUE%x}"
  done
  unset TESSERA_NAME TESSERA_VALUE
  exec "$@"
}

for promise in $TESSERA_PROMISED; do # by the platform: what the node adds where it gives its cards as it said
  eval "given=\${${promise%%=*}-}"
  [ "$given" = "${promise#*=}" ] || fail "The node did not do what its agent said of its cards: $promise."
done
export PATH="$PATH:/tessera/tools" PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}/tessera/tools" # the image's and the task's own first
[ "${VIRTUAL_ENV-}" != /tessera/env ] || export PATH="$VIRTUAL_ENV/bin:$PATH"
mkdir -p "$HOME" "$TMPDIR" "$1" 2>/dev/null
[ -z "$2" ] || tar -xzof "$2" -C "$1" || fail "The code could not be unpacked."
shift 2
while [ $# -gt 0 ]; do
  link_data "$@" || fail "$2 cannot be had as $4."
  shift 4
done
mkdir -p "$cwd" 2>/dev/null
cd "$cwd" || fail "The job cannot work in $cwd."
case $folder in '~'/*) folder=$HOME/${folder#'~/'} ;; esac
meet "$needs"
if [ -n "$rang" ]; then
  cause=stopped
  tell
  exit 143
fi
shell=$(command -v bash || command -v sh)
become "$shell" -c "$run" &
task=$!
step=runs
[ "$most" = 0 ] || arm "$most"

while :; do
  [ -n "$rang" ] || { wait "$task" && code=0 || code=$?; }
  [ -n "$rang" ] || break
  what=$rang rang=
  case $step:$what in
    runs:stop)
      cause=stopped
      if [ "$signal" != 0 ]; then step=patience && arm "$PATIENCE"; else end "$grace"; fi
      ;;
    runs:time) cause=time_limit && save_then_end ;;
    patience:time) save_then_end ;;
    saves:time) end "$grace" ;;
    ends:time) kill -KILL -1 2>/dev/null ;;
  esac
done
[ -z "$folder$cause" ] || tell
exit "$code"

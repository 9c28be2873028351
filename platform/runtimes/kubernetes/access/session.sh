# A person's program in a task's container, beside its first process. It waits for its holder (holder.sh), which made the
# pipe in $1 and is told what becomes of the program, and it outlives the signals of the program's group. It ends when the
# holder says that all output came.
#
# $1 the holder's pipe   $2 where to work, beside where the task does   then NAME=VALUE..., --, and the program
door=$1 cwd=$2 tries=0
shift 2
until [ -p "$door" ]; do
  tries=$((tries + 1))
  [ "$tries" -lt 200 ] && sleep 0.05 || exit 127
done
exec 9>"$door" || exit 127
trap : HUP INT QUIT TERM USR1 USR2
trap : PIPE
tell() { printf '%s\n' "$*" >&9 2>/dev/null; }
while [ "$1" != -- ]; do export "$1" && shift; done
shift
export PATH="$PATH:/tessera/tools" PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}/tessera/tools" # as supervisor.sh
cd -P /proc/1/cwd 2>/dev/null || cd /
case $cwd in
  '' | /*) ;;
  '~' | '~/'*) cwd=$HOME${cwd#'~'} ;;
  *) cwd=./$cwd ;;
esac
if [ -n "$cwd" ] && ! cd "$cwd" 2>/dev/null; then
  tell "failed $1: $cwd is no folder that can be entered"
elif ! command -v "$1" >/dev/null 2>&1; then
  tell "failed $1: there is no such program"
else
  ( # the traps are not this one's: whoever signals the program as soon as it has started finds somebody whom it ends
    me=/proc/$$/fd
    tell "started $$ $(readlink $me/0) $(readlink $me/1) $(readlink $me/2)" || exit 127
    exec "$@" 9>&-
  )
  code=$?
  tell "exit $code" || exit "$code" # the holder is gone: nobody would let it go
  mark() { printf '\036%s\036' "${door##*-}"; } # the end of an output that is closed may be lost: first it has to arrive
  mark
  [ -t 1 ] || mark >&2
  read -r line <"$door.end"
  exit "$code"
fi
exit 127

# Holds the program of session.sh for somebody at the other end of standard input: passes on what is told of it, sends it
# signals ("signal 15"), lets it go ("done"), and hangs up when that end is closed or cut off: SIGHUP, a second later SIGKILL. Then what the
# program left running stays if it holds none of the session's streams.
#
# $1 the pipe between the two
door=$1 main='' ends='' nl='
'
trap '' HUP INT QUIT TERM PIPE
exec 4>&2 2>/dev/null # kept open: where one output ends, containerd closes the input too
mkfifo -m 600 "$door.end" "$door" || exit 1
exec 3<&0 8<>"$door"
{ while read -r line; do printf '%s\n' "$line"; done; echo hang; } <&3 >&8 &
exec 3<&- </dev/null

belongs() { # whether this process is the program, or its child, or holds one of its ends
  read -r line <"/proc/$1/stat" || return 1
  set -- "$1" ${line##*) } # state, parent, group, session
  [ "$5" = "$main" ] && [ "$2" != Z ] || return 1
  [ "$1" != "$main" ] && [ "$3" != "$main" ] || return 0
  open=$(ls -l "/proc/$1/fd")$nl
  for end in $ends; do
    case $open in *"-> $end$nl"*) return 0 ;; esac
  done
  return 1
}

while read -r word rest <&8; do
  case $word in
    started)
      [ -z "$main" ] || continue
      main=${rest%% *} ends=${rest#* }
      rm -f "$door"
      echo started
      ;;
    failed | exit) printf '%s %s\n' "$word" "$rest" ;;
    signal) [ -z "$main" ] || kill "-$rest" "-$main" || kill "-$rest" "$main" ;;
    done) : >"$door.end" && rm -f "$door.end" ;;
    hang) break ;;
  esac
done
rm -f "$door" "$door.end"
going=
[ -z "$main" ] || for stat in /proc/[0-9]*/stat; do
  pid=${stat#/proc/} pid=${pid%/stat}
  ! belongs "$pid" || going="$going $pid"
done
[ -n "$going" ] || exit 0
kill -HUP $going
kill -CONT $going
sleep 1
kill -KILL $going

"""The shell scripts of background jobs: starting, probing, ending and listing them.

Files of a job, the same as the official client's: ``/tmp/job_ID.stdout.log``, ``.stderr.log``,
``.exit`` and the folder ``.launch``. The process in ``.launch/pid`` watches over the job; that its
command line names the exit file is how everybody tells that it lives.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

__all__ = [
    "COMMAND_VARIABLE",
    "bytes_script",
    "cancel_script",
    "launch_script",
    "list_script",
    "probe_script",
    "uploaded_command",
]

COMMAND_VARIABLE = "PRIME_JOB_COMMAND"
"""Carries the command to the launch script: nothing of it stands in a process title."""

# Whoever makes `claim` runs the command: a launch that is repeated never runs it twice. The command
# has a process group of its own, so that nothing that it does to its group reaches the watcher,
# which then records how it ended. `command -p` finds tools whatever PATH the job has.
_WATCHER = r"""
e=$1 p=${1%.exit} d=${1%.exit}.launch
command -p mkdir "$d/claim" 2>/dev/null || {
  test -d "$d/claim" && echo started && exit
  command -p mkdir "$d/claim"; exit 1
}
{ : >"$p.stdout.log" >"$p.stderr.log" && echo $$ >"$d/pid"; } || {
  command -p rmdir "$d/claim"; exit 1
}
echo started
exec >/dev/null 2>&1
set -m
{ cd -- "${2:-.}" && exec "$BASH" "$d/command"; } </dev/null >"$p.stdout.log" 2>"$p.stderr.log" &
c=$!
echo $c >"$d/group"
trap 't=1; kill -TERM -- -$c' TERM INT HUP
while t=; wait $c; s=$?; test -n "$t"; do :; done
until echo $s >"$e" || ! test -d "$d"; do command -p sleep 1; done
"""

_LAUNCH = r"""
d={job}.launch
command -p mkdir -p "$d" || exit 1
test -d "$d/claim" || {{
  (umask 077; {source} >"$d/command.$$" && command -p mv -f "$d/command.$$" "$d/command") || exit 1
}}
{cleanup}
a=$(set -m; "$BASH" -c {watcher} prime-job {job}.exit {folder} </dev/null 2>&1 &)
test "$a" = started || {{ echo "the job did not start${{a:+: $a}}" >&2; exit 1; }}
"""

_PROBE = r"""
ended() { s=; { read -r s <"$p.exit"; } 2>/dev/null; test -n "$s" && echo "$i $s"; }
lives() {
  q= a=(); { read -r q <"$p.launch/pid"; } 2>/dev/null || return
  { mapfile -d '' -t a <"/proc/$q/cmdline"; } 2>/dev/null || return
  case " ${a[*]} " in *"$p.exit"*) ;; *) return 1 ;; esac
}
look() {
  p=/tmp/job_$i
  ended && return
  lives && { echo "$i running"; return; }
  ended || { test -d "$p.launch" && echo "$i lost" || echo "$i unknown"; }
}
"""

# A job of the official client has no group file: the group is that of the watching process.
_CANCEL = r"""
look | { read -r _ s; test "$s" = running; } || { look; exit; }
read -r q <"$p.launch/pid"
g=; { read -r g <"$p.launch/group"; } 2>/dev/null
if test -z "$g"; then
  read -r g <"/proc/$q/stat"; g=${g##*) }; set -- $g; g=$3
fi
over() { ended >/dev/null || ! lives; }
tell() { kill -"$1" -- "-$g" 2>/dev/null; }
until_over() { n=$1; while ! over && test "$n" -gt 0; do command -p sleep 0.1; n=$((n - 1)); done; }
tell TERM; until_over {grace}; k=143
if ! over; then tell KILL; until_over 30; k=137; fi
if ! over; then kill -KILL "$q" 2>/dev/null; until_over 10; fi
if ! lives && ! ended >/dev/null; then echo $k >"$p.exit"; fi
look
"""

_LIST = r"""
for d in /tmp/job_*.launch; do
  test -d "$d" || continue
  i=${d#/tmp/job_} i=${i%.launch}
  case $i in *[!0-9a-f]*) continue ;; esac
  test ${#i} -eq 8 || continue
  r=$(look)
  t=$(command -p stat -c %Y "$d" 2>/dev/null)
  c=$({ command -p head -c 200 "$d/command" | command -p base64 -w 0; } 2>/dev/null)
  echo "$r ${t:--} ${c:--}"
done
"""


def uploaded_command(job_id: str) -> str:
    """Where a command is uploaded to that is too long to be carried in a variable."""
    return f"/tmp/job_{job_id}.upload"  # noqa: S108 - of the sandbox


def launch_script(job_id: str, working_dir: str | None, *, uploaded: bool) -> str:
    """Write the script that starts a job and returns once it runs; repeating it changes nothing.

    Args:
        job_id: the job.
        working_dir: where it runs, or None.
        uploaded: the command lies in :func:`uploaded_command`, not in a variable.
    """
    path = uploaded_command(job_id)
    return _LAUNCH.format(
        job=f"/tmp/job_{job_id}",  # noqa: S108 - of the sandbox
        source=f"command -p cat {path}" if uploaded else f'printf %s "${COMMAND_VARIABLE}"',
        cleanup=f"command -p rm -f {path}" if uploaded else f"unset {COMMAND_VARIABLE}",
        watcher=shlex.quote(_WATCHER),
        folder=shlex.quote(working_dir or ""),
    )


def probe_script(job_ids: Iterable[str]) -> str:
    """Write the script that prints ``ID CODE``, ``running``, ``lost`` or ``unknown`` per job."""
    return f"{_PROBE}for i in {' '.join(job_ids)}; do look; done\n"


def cancel_script(job_id: str, grace: float) -> str:
    """Write the script that ends a job and prints how it is then, as :func:`probe_script` does."""
    tenths = max(0, round(grace * 10))
    body = _CANCEL.replace("{grace}", str(tenths))
    return f"{_PROBE}i={job_id} p=/tmp/job_{job_id}\n{body}"


def list_script() -> str:
    """Write the script that prints a line per job: state, time of start, beginning of command."""
    return _PROBE + _LIST


def bytes_script(path: str, offset: int, length: int) -> str:
    """Write the script that prints a part of a file in base64: exact whatever carries it."""
    name = shlex.quote(path)
    return (
        f"command -p tail -c +{offset + 1} {name} | command -p head -c {length} "
        "| command -p base64 -w 0"
    )

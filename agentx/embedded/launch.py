"""Becomes another program after tying its life and rights to what the supervisor wants.

Run by path, as ``python -I -S launch.py … -- program args``, so that it costs some 15 ms and imports nothing of the
product. A program of its own, because ``preexec_fn`` is not safe in a parent with threads.

1. ``--user UID:GID`` gives up root for good: groups, group, user. PostgreSQL refuses to run as root.
2. ``--read-search`` keeps the one capability that lets the new user walk through folders such as ``/root`` which only
   root may enter. Nothing else of root's rights remains.
3. ``--death-signal N`` asks the kernel to send N when the parent dies, so that ``kill -9`` of the supervisor leaves
   nothing behind. Last, because a change of user clears it. Linux only; elsewhere it has no effect.
"""

import argparse
import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1
PR_SET_SECUREBITS = 28
SECBIT_NO_SETUID_FIXUP = 1 << 2
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CAP_DAC_READ_SEARCH = 2
CAPABILITY_VERSION_3 = 0x20080522
CANNOT_ENTER = 71


def _libc():
    return ctypes.CDLL(None, use_errno=True)


def _prctl(*values):
    numbers = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:5]]
    if _libc().prctl(*numbers) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {values} refused")


def keep_read_search():
    """Narrow this process to CAP_DAC_READ_SEARCH alone and hand it through the coming exec."""
    bit = 1 << CAP_DAC_READ_SEARCH
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)(
        bit, bit, bit, 0, 0, 0
    )  # effective, permitted, inheritable; low word, high word
    if _libc().capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset refused")
    _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_READ_SEARCH)


def become(user, read_search):
    uid, gid = (int(part) for part in user.split(":"))
    if read_search:
        # Keeps the capability through the change of user; also lets access(2) see it, which initdb asks for its programs.
        _prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP)
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if read_search:
        keep_read_search()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--user")
    parser.add_argument("--read-search", action="store_true")
    parser.add_argument("--death-signal", type=int, default=0)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    chosen = parser.parse_args()
    program = chosen.program[1:]
    if chosen.user:
        try:
            become(chosen.user, chosen.read_search)
        except OSError as error:
            sys.stderr.write(f"cannot become user {chosen.user}: {error}\n")
            return CANNOT_ENTER
    if chosen.death_signal and sys.platform == "linux":
        _prctl(PR_SET_PDEATHSIG, chosen.death_signal)
        if os.getppid() != chosen.parent:  # it died before the line above
            return CANNOT_ENTER
    try:
        os.execv(program[0], program)
    except OSError as error:
        sys.stderr.write(f"cannot run {program[0]}: {error.strerror}\n")
        return CANNOT_ENTER


if __name__ == "__main__":
    sys.exit(main())

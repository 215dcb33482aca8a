"""System calls that no file of a network needs, refused by a filter of the kernel (seccomp, mode 2) on Linux.

The filter is a list: what stands in it gives EPERM, other calls go on. A process of another architecture is ended, and
calls that are newer than the list do not exist. Numbers: the kernel's arch/x86/entry/syscalls/syscall_64.tbl and
include/uapi/asm-generic/unistd.h of 6.12; layout of the filter: include/uapi/linux/filter.h, seccomp.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from typing import NamedTuple

from trainplan.workloads.network_reader.kernel import prctl


class _Machine(NamedTuple):
    audit_arch: int
    column: int
    """Of `_REFUSED`."""
    clone: int
    clone3: int
    ioctl: int
    prlimit: int
    tgkill: int


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 0, clone=56, clone3=435, ioctl=16, prlimit=302, tgkill=234),
    "aarch64": _Machine(0xC00000B7, 1, clone=220, clone3=435, ioctl=29, prlimit=261, tgkill=131),
}
_NEWEST = 462
"""mseal, of Linux 6.10. What came later is answered as by a kernel that has not got it."""
_X32 = 0x40000000
"""Numbers from here on are calls of x86-64's second interface, which the list would not meet."""

_REFUSED: dict[str, tuple[int | None, int | None]] = {
    # Modes, owners, times and attributes of files, and further names of files.
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "link": (86, None), "linkat": (265, 37), "symlink": (88, None), "symlinkat": (266, 36), "mknod": (133, None),
    "mknodat": (259, 33),
    # Sockets of every kind, and the ring that opens them without these calls.
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # Other processes: their memory, descriptors, signals, limits and priorities; and programs.
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "kcmp": (312, 272), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "kill": (62, 129), "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "sched_setscheduler": (144, 119), "sched_setparam": (142, 118), "sched_setattr": (314, 274),
    "sched_setaffinity": (203, 122), "migrate_pages": (256, 238), "move_pages": (279, 239), "fork": (57, None),
    "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    # File systems, namespaces, users and rights.
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "move_mount": (429, 429), "open_tree": (428, 428), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "setuid": (105, 146), "setgid": (106, 144),
    "setreuid": (113, 145), "setregid": (114, 143), "setresuid": (117, 147), "setresgid": (119, 149),
    "setgroups": (116, 159), "setfsuid": (122, 151), "setfsgid": (123, 152), "capset": (126, 91),
    # Keys, programs and faults in the kernel, and memory that belongs to nobody's limit.
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "bpf": (321, 280),
    "userfaultfd": (323, 282), "perf_event_open": (298, 241), "shmget": (29, 194), "shmat": (30, 196),
    "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180), "mq_unlink": (241, 181),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "modify_ldt": (154, None), "personality": (135, 92),
    # The computer itself.
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162), "syslog": (103, 116),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "iopl": (172, None), "ioperm": (173, None),
    "vhangup": (153, 58), "fanotify_init": (300, 262),
}  # fmt: skip
_REFUSED_IOCTLS = (0x5412, 0x541C, 0x40086602, 0x40046602, 0x401C5820, 0x40087602)
"""Typing into a terminal (TIOCSTI, TIOCLINUX), and flags of files (FS_IOC_SETFLAGS, FSSETXATTR, SETVERSION)."""

_CLONE_THREAD = 0x00010000
_LOAD, _IS, _IS_FROM, _HAS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""BPF_LD|W|ABS; BPF_JMP with JEQ, JGE and JSET and a constant; BPF_RET."""
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24
"""Offsets in seccomp_data; of the first two arguments the lower halves, on machines of this byte order."""
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2

_Instruction = tuple[int, int, int, int]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def refuse_calls() -> bool:
    """Refuse the calls to this thread and those that it starts. False where the system has no such filter.

    Needs PR_SET_NO_NEW_PRIVS.
    """
    machine = _MACHINES.get(platform.machine())
    if sys.platform != "linux" or machine is None or sys.byteorder != "little" or struct.calcsize("P") != 8:
        return False
    packed = b"".join(struct.pack("<HBBI", *one) for one in _filter(machine, os.getpid()))
    buffer = ctypes.create_string_buffer(packed, len(packed))
    program = _Program(len(packed) // 8, ctypes.addressof(buffer))
    return prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(program)) == 0


def _filter(machine: _Machine, own_pid: int) -> list[_Instruction]:
    refuse = _answer(_ERRNO | errno.EPERM)
    absent = _answer(_ERRNO | errno.ENOSYS)
    steps = [(_LOAD, 0, 0, _ARCH), (_IS, 1, 0, machine.audit_arch), _answer(_KILL), (_LOAD, 0, 0, _NUMBER)]
    steps += [(_IS_FROM, 0, 1, _X32), refuse, (_IS_FROM, 0, 1, _NEWEST + 1), absent]
    # Without it, threads are made by clone, whose flags can be looked at here.
    steps += [(_IS, 0, 1, machine.clone3), absent]
    for numbers in _REFUSED.values():
        number = numbers[machine.column]
        if number is not None:
            steps += [(_IS, 0, 1, number), refuse]
    steps += _only(machine.clone, _FIRST, [(_HAS, 1, 0, _CLONE_THREAD), refuse])
    steps += _only(machine.prlimit, _FIRST, [(_IS, 1, 0, 0), refuse])
    steps += _only(machine.tgkill, _FIRST, [(_IS, 1, 0, own_pid), refuse])
    ioctls = [one for number in _REFUSED_IOCTLS for one in ((_IS, 0, 1, number), refuse)]
    steps += _only(machine.ioctl, _SECOND, ioctls)
    return [*steps, _answer(_ALLOW)]


def _only(number: int, argument: int, steps: list[_Instruction]) -> list[_Instruction]:
    """The steps for one call alone, which look at an argument of it; it goes on where none of them refuses it."""
    return [(_IS, 0, len(steps) + 2, number), (_LOAD, 0, 0, argument), *steps, _answer(_ALLOW)]


def _answer(value: int) -> _Instruction:
    return _RETURN, 0, 0, value

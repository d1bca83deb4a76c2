"""What can go wrong with a kernel file, named by what the caller does next."""

import errno
from pathlib import PurePath


class CgroupGone(Exception):  # noqa: N818 - named by the fact, which is normal for a pod that ended
    """The cgroup no longer exists; forget it."""


class Unsupported(Exception):  # noqa: N818
    """This kernel, mount or permission does not offer the file; asking again soon is useless."""


class NotPermitted(Unsupported):
    """We may not open the file: the agent lacks rights, or the mount is read-only. A person must act."""


class WriteRefused(OSError):  # noqa: N818
    """The kernel did not take the value (EINVAL, EBUSY, ...); the old one is still in place."""


_GONE = frozenset({errno.ENODEV, errno.EIO})
_NOT_PERMITTED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def translate(error: OSError, path: str, *, directory_exists: bool, opening: bool = False) -> Exception:
    """The exception of this module for an errno met at `path`.

    ENOENT means two things: the cgroup is gone, or it is there and lacks this file (an older kernel, a
    controller that is off). EIO is what some kernels answer for a file of a dying cgroup. EACCES is a lack of
    rights only when opening; from a write to v1's cpuset.cpus it says that the parent lacks a CPU.
    """
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    if error.errno in _GONE or (error.errno == errno.ENOENT and not directory_exists):
        return CgroupGone(f"{path}: {name}")
    if error.errno == errno.ENOENT:
        return Unsupported(f"{path}: the kernel has no {PurePath(path).name} here")
    if error.errno == errno.EOPNOTSUPP:
        return Unsupported(f"{path}: {name}")
    if opening and error.errno in _NOT_PERMITTED:
        return NotPermitted(f"{path}: {name}")
    return WriteRefused(error.errno, f"{path}: {name}")

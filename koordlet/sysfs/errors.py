"""What can go wrong with a kernel file, named by what the caller does next."""

import errno
from pathlib import PurePath


class CgroupGone(Exception):  # noqa: N818 - named by the fact, which is normal for a pod that ended
    """The cgroup no longer exists; forget it."""


class Unsupported(Exception):  # noqa: N818
    """This kernel, mount or permission does not offer the file; asking again soon is useless."""


class WriteRefused(OSError):  # noqa: N818
    """The kernel did not take the value (EINVAL, EBUSY, ...); the old one is still in place."""


_GONE = frozenset({errno.ENODEV, errno.EIO})
_UNSUPPORTED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EOPNOTSUPP})


def translate(error: OSError, path: str, directory_exists: bool) -> Exception:
    """The exception of this module for an errno met at `path`.

    ENOENT means two things: the cgroup is gone, or it is there and lacks this file (an older kernel, a
    controller that is off). EIO is what some kernels answer for a file of a dying cgroup.
    """
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    if error.errno in _GONE or (error.errno == errno.ENOENT and not directory_exists):
        return CgroupGone(f"{path}: {name}")
    if error.errno == errno.ENOENT:
        return Unsupported(f"{path}: the kernel has no {PurePath(path).name} here")
    if error.errno in _UNSUPPORTED:
        return Unsupported(f"{path}: {name}")
    return WriteRefused(error.errno, f"{path}: {name}")

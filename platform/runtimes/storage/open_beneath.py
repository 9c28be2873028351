"""Open paths that people name without leaving a root folder. Standard library only.

openat2 (Linux 5.6) fails with EXDEV on "..", absolute paths and links that lead out, even during renames. Without it, a
walk follows no links.
"""

import ctypes
import errno
import os
import stat

SYS_OPENAT2 = 437  # on every architecture: https://man7.org/linux/man-pages/man2/openat2.2.html
RESOLVE_NO_MAGICLINKS, RESOLVE_BENEATH = 0x02, 0x08
RENAME_NOREPLACE = 1
TRIES = 8  # on EAGAIN, after a rename meanwhile

_libc = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def open_beneath(root: int, path: str, flags: int, mode: int = 0) -> int:
    """Open `path` below the folder `root`; "" is the folder. Raises OSError."""
    flags |= os.O_CLOEXEC | (0 if flags & os.O_PATH else os.O_NOCTTY)  # openat2 refuses both together
    if not has_openat2():
        return _walk(root, path, flags, mode)
    for _ in range(TRIES):
        try:
            return _openat2(root, path or ".", flags, mode)
        except BlockingIOError:
            continue
    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)


def open_parent(root: int, path: str) -> tuple[int, str]:
    """Return (descriptor of the parent folder, last name)."""
    folder, _, name = path.rpartition("/")
    if name in {"", ".", ".."}:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
    return open_beneath(root, folder, os.O_RDONLY | os.O_DIRECTORY), name


def rename_beneath(from_dir: int, old: str, to_dir: int, new: str, *, replace: bool) -> None:
    """Rename atomically. Raises FileExistsError without `replace`."""
    flags = 0 if replace else RENAME_NOREPLACE
    if _libc.renameat2(from_dir, os.fsencode(old), to_dir, os.fsencode(new), flags) == 0:
        return
    if replace or ctypes.get_errno() not in (errno.EINVAL, errno.ENOSYS):
        _raise(new)
    _rename_in_steps(from_dir, old, to_dir, new)


def _rename_in_steps(from_dir: int, old: str, to_dir: int, new: str) -> None:
    """Rename without RENAME_NOREPLACE (NFS): files by link and unlink; a folder may replace a new, empty one."""
    if stat.S_ISDIR(os.stat(old, dir_fd=from_dir, follow_symlinks=False).st_mode):
        try:
            os.stat(new, dir_fd=to_dir, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(old, new, src_dir_fd=from_dir, dst_dir_fd=to_dir)
        else:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
    else:
        os.link(old, new, src_dir_fd=from_dir, dst_dir_fd=to_dir, follow_symlinks=False)
        os.unlink(old, dir_fd=from_dir)


_known: list[bool] = []


def has_openat2() -> bool:
    """Return whether openat2 works: old kernels and some containers lack it."""
    if not _known:
        try:
            os.close(_openat2(_AT_FDCWD, ".", os.O_PATH, 0))
            _known.append(True)
        except OSError:
            _known.append(False)
    return _known[0]


_AT_FDCWD = -100


def _openat2(root: int, path: str, flags: int, mode: int) -> int:
    resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS
    how = _How(flags, mode if flags & os.O_CREAT else 0, resolve)
    size = ctypes.c_size_t(ctypes.sizeof(how))
    fd = _libc.syscall(ctypes.c_long(SYS_OPENAT2), root, os.fsencode(path), ctypes.byref(how), size)
    return fd if fd >= 0 else _raise(path)


def _walk(root: int, path: str, flags: int, mode: int) -> int:
    names = path.split("/") if path else ["."]
    if ".." in names or "" in names or (path and "." in names):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    at = os.dup(root)
    try:
        for name in names[:-1]:
            step = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = step
        found = os.open(names[-1], flags | os.O_NOFOLLOW, mode, dir_fd=at)
        if flags & os.O_PATH and stat.S_ISLNK(os.fstat(found).st_mode):  # O_PATH opens the link itself
            os.close(found)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        return found
    finally:
        os.close(at)


def _raise(path: str) -> int:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number), path)

"""A program that mounts layers, and folders of which nothing is executed, and becomes another one.

Its arguments: NAMESPACES KIND LAYERS LAYER ... FOLDERS FOLDER ... PROGRAM [ARGUMENT ...]; `overlay.py` makes
them. NAMESPACES is `mounts`, or `users` for one of users, too; KIND is `inert` where nothing in the layers is
executed. Importing next to nothing: it is started for every script.
"""

import posix  # `os` would cost two milliseconds
from posix import _exit as end_at_once

from supervisor import of_libc  # type: ignore[import-not-found]  # there are no packages here

NEW_MOUNTS, NEW_USERS = 0x20000, 0x10000000
NOEXEC, REMOUNT, BIND, RECURSIVE, PRIVATE = 8, 1 << 5, 1 << 12, 1 << 14, 1 << 18
KEPT_FLAGS = 0b111
"""Read-only, without set-id bits, without devices: what a namespace of users may not take away."""
OPTIONS = b"lowerdir=lower,upperdir=upper,workdir=work,userxattr"
"""In a layer's own folder all paths are short words: an option has no room for `,` or `:` of a person's."""


def main(arguments: list[str]) -> None:
    """Mount, and become the program. Does not return."""
    namespaces, kind, count, *rest = arguments
    flags = NOEXEC if kind == "inert" else 0
    layers, (others, *rest) = rest[: int(count)], rest[int(count) :]
    folders, command = rest[: int(others)], rest[int(others) :]
    try:
        enter(has_users=namespaces == "users")
        start = posix.open(".", posix.O_PATH | posix.O_CLOEXEC)
        for layer in layers:
            posix.chdir(layer)
            mount("overlay", "merged", flags, OPTIONS, f"a layer over {posix.readlink('lower')}")
        posix.fchdir(start)
        for folder in folders:
            mount(folder, folder, BIND)
            mount("none", folder, REMOUNT | BIND | NOEXEC | posix.statvfs(folder).f_flag & KEPT_FLAGS)
        posix.execve(command[0], command, posix.environ)
    except OSError as error:
        posix.write(2, f"skills-agent: no layer: {error.strerror}\n".encode(errors="replace"))
    end_at_once(1)


def enter(*, has_users: bool) -> None:
    """Enter a namespace of mounts, and one of users, in which this process is root. Raises OSError."""
    user, group = posix.getuid(), posix.getgid()
    check(of_libc("unshare", NEW_MOUNTS | NEW_USERS * has_users), "a namespace")
    if has_users:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            file = posix.open(f"/proc/self/{name}", posix.O_WRONLY | posix.O_CLOEXEC)
            posix.write(file, text.encode())
            posix.close(file)
    mount("none", "/", RECURSIVE | PRIVATE)


def mount(source: str, target: str, flags: int, options: bytes | None = None, what: str = "") -> None:
    """Mount something. Raises OSError."""
    names = [name.encode(errors="surrogateescape") for name in (source, target, "overlay")]
    check(of_libc("mount", *names, flags, options), what or f"a mount of {target}")


def check(result: int, what: str) -> None:
    """Raise OSError where a call failed."""
    if result:
        raise OSError(1, f"the system refuses {what}")

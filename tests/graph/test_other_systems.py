"""Windows: the package is imported there, and says what is missing where a graph is built."""

import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import os, signal, sys
    import skills_agent.graph.build  # What the libraries import of the system is theirs to find.

    LACKING = {"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"}

    class Lacking:
        def find_spec(self, name, path=None, target=None):
            if name in LACKING:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Lacking())
    for name in [each for each in sys.modules if each in LACKING or each.startswith("skills_agent")]:
        del sys.modules[name]
    for name in "O_CLOEXEC O_DIRECTORY O_NOCTTY O_NOFOLLOW O_NONBLOCK fork geteuid register_at_fork".split():
        delattr(os, name)
    for name in ("SIGHUP", "SIGKILL", "SIGPIPE"):
        delattr(signal, name)

    from skills_agent.graph import Context, Settings, Threads, build_graph
    try:
        build_graph(Settings(workspace="."))
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.slow
def test_the_package_is_imported_where_posix_modules_are_missing() -> None:
    program = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == (
        "SettingsError The agent works on Linux and macOS, and on Windows in WSL: "
        "this Python has no module fcntl.\n"
    )

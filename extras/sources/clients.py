"""Errors of clients."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from skills_agent.skills.text import cause_of


@contextmanager
def raising_os_errors(clean: Callable[[str], str] = str) -> Iterator[None]:
    """Turn what a foreign client raises, of whatever class, into an OSError with one clean line of text."""
    try:
        yield
    except FileNotFoundError as error:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT)) from error
    except PermissionError as error:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES)) from error
    except OSError as error:
        raise OSError(error.errno or errno.EIO, clean(cause_of(error))) from error
    except Exception as error:
        raise OSError(errno.EIO, clean(f"{type(error).__name__}: {cause_of(error)}")) from error

"""A service that is made when it is first asked for."""

from collections.abc import Callable
from threading import RLock
from typing import Any, Final, Generic, Self, TypeVar, overload

Made = TypeVar("Made")

_LOCK: Final = RLock()
"""One for all: services ask each other, and nodes run in several threads."""


class once(Generic[Made]):  # noqa: N801 - used like `property`
    """A method that is called once for its object, whichever thread asks first; then its value is there.

    `functools.cached_property` calls it once for each thread that asks before the value is there.
    """

    def __init__(self, make: Callable[[Any], Made]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, of: None, owner: type) -> Self: ...
    @overload
    def __get__(self, of: object, owner: type) -> Made: ...
    def __get__(self, of: object, owner: type) -> Self | Made:
        if of is None:
            return self
        with _LOCK:
            if self._name not in vars(of):
                vars(of)[self._name] = self._make(of)
        made: Made = vars(of)[self._name]
        return made

"""A service that is made when it is first asked for."""

from functools import cached_property
from threading import RLock
from typing import Final, Self, TypeVar, overload

from typing_extensions import override

Made = TypeVar("Made")

_LOCK: Final = RLock()
"""One for all: services ask each other, and nodes run in several threads."""


class once(cached_property[Made]):  # noqa: N801 - used like `property`
    """A method that is called once for its object, whichever thread asks first; then its value is there.

    `cached_property` alone calls it once for each thread that asks before the value is there.
    """

    @overload
    def __get__(self, instance: None, owner: type[object] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[object] | None = None) -> Made: ...
    @override
    def __get__(self, instance: object, owner: type[object] | None = None) -> Self | Made:
        with _LOCK:
            return super().__get__(instance, owner)

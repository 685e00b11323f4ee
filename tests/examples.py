"""How many examples a property test tries."""

from typing import Final

from hypothesis import HealthCheck, settings

FULL: Final = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no reason to fail: what is tested here is behaviour, never time.

Nor is chance: the examples are the same every time, and the profile `search` looks for others.
"""


def trying(number: int, *, with_fixtures: bool = False) -> settings:
    """Return the settings of a test that tries so many examples, and no more than others in `make test`.

    A number in `@settings` would be stronger than that of the profile, and a list of health checks
    would replace its list. `with_fixtures`: all examples share the fixtures of the test.
    """
    current = settings()
    is_quick = settings.get_current_profile_name() == "quick"
    shared = [HealthCheck.function_scoped_fixture] if with_fixtures else []
    return settings(
        max_examples=min(number, current.max_examples) if is_quick else number,
        suppress_health_check=[*current.suppress_health_check, *shared],
    )

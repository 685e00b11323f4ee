"""The resource limits of a process."""

import pytest

from skills_agent.skills.scripts.environment import ScriptLimits


def test_no_program_dumps_its_memory_into_the_workspace() -> None:
    assert ScriptLimits().rlimits("python3", 60)["CORE"] == 0


def test_processor_time_is_what_the_time_limit_allows_at_least() -> None:
    assert ScriptLimits().rlimits("python3", 60)["CPU"] >= 60
    assert ScriptLimits(cpu_seconds=7).rlimits("python3", 60)["CPU"] == 7


@pytest.mark.parametrize("program", ["/usr/bin/bun", "deno"])
def test_programs_that_reserve_addresses_are_limited_in_memory_alone(program: str) -> None:
    limits = ScriptLimits(memory=100).rlimits(program, 60)
    assert "AS" not in limits
    assert limits["DATA"] == 100

"""The resource limits of a process."""

from skills_agent.skills.scripts.environment import ScriptLimits


def test_no_program_dumps_its_memory_into_the_workspace() -> None:
    assert ScriptLimits().rlimits(60)["CORE"] == 0


def test_processor_time_is_what_the_time_limit_allows_at_least() -> None:
    assert ScriptLimits().rlimits(60)["CPU"] >= 60
    assert ScriptLimits(cpu_seconds=7).rlimits(60)["CPU"] == 7


def test_memory_is_limited_and_what_is_only_reserved_is_not() -> None:
    limits = ScriptLimits(memory=100).rlimits(60)
    assert "AS" not in limits
    assert limits["DATA"] == 100

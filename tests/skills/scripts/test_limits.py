"""The resource limits of a process."""

from skills_agent.skills.scripts.environment import ScriptLimits


def test_nothing_is_dumped_and_memory_that_is_only_reserved_is_not_limited() -> None:
    limits = ScriptLimits(memory=100).rlimits(60)
    assert (limits["CORE"], limits["DATA"], limits.get("AS")) == (0, 100, None)
    assert limits["CPU"] >= 60
    assert ScriptLimits(cpu_seconds=7).rlimits(60)["CPU"] == 7

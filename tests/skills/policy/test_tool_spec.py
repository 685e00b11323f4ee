"""What a tool is, as policy and people see it."""

from skills_agent.skills.policy.tool_spec import TOOL_SPECS, ToolSpec


def test_framework_tools_are_those_that_make_skills_plans_and_questions_work() -> None:
    framework = {name for name, spec in TOOL_SPECS.items() if spec.framework}
    assert framework == {
        *("load_skill", "unload_skill", "search_skills", "read_resource", "update_plan", "ask_user"),
        "call_tool",  # and so is each of a skill
        "task",  # each call of the subagent is judged
        # What was started was allowed.
        *("command_output", "stop_command"),
    }


def test_a_call_is_shown_with_its_arguments_unless_the_tool_has_a_view() -> None:
    plain = ToolSpec(name="send_mail")
    assert plain.risk == "network"  # says nothing of itself
    shown = "send_mail(to=a@b.c, copies=2, urgent=true)"
    assert plain.show({"to": "a@b.c", "copies": 2, "urgent": True}) == shown
    viewed = ToolSpec(name="send_mail", view=lambda args: f"a mail to {args['to']}")
    assert viewed.show({"to": "a@b.c"}) == "a mail to a@b.c"
    assert TOOL_SPECS["load_skill"].show({"name": "csv-report"}) == "load_skill csv-report"

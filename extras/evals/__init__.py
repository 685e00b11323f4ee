"""Eval cases of skills: does a skill help, and is it chosen when it should be."""

from typing import Final

from skills_agent.graph.hooks import Command, Extra

EXTRA: Final = Extra(
    name="evals",
    measure_draft="skills_agent.evals.proposals:measure_draft",
    commands={
        "eval": Command(
            "skills_agent.evals.commands.eval:eval",
            "Run eval cases: does a skill help, and is it chosen when it should be.",
        ),
    },
)

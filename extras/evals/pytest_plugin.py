"""`pytest --skills-evals PATH`: eval cases as tests, so that a repository of skills tests them in its own CI.

pytest loads this module wherever skills-agent is installed: without the option it imports nothing of ours but
what names the part (`skills_agent.evals`).
"""

from typing import Any, Final

import pytest

_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "--skills-evals": {"action": "append", "metavar": "PATH", "help": "Run the eval cases in PATH."},
    "--skills-evals-model": {"metavar": "NAME", "help": "offline, scripted, or <provider>:<model>."},
    "--skills-evals-grader": {"default": "", "metavar": "MODEL", "help": "Grade rubrics with this model."},
    "--skills-evals-replay": {"action": "store_true", "help": "Answer from recordings: no key, no network."},
    "--skills-evals-yes": {
        "default": "",
        "metavar": "KINDS",
        "help": "Allow calls of these kinds: run,write.",
    },
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("skills-evals", "skills-agent: eval cases of skills")
    for name, more in _OPTIONS.items():
        group.addoption(name, **more)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("skills_evals"):
        from skills_agent.evals.pytest_items import SkillEvals

        config.pluginmanager.register(SkillEvals(config), "skills-evals-session")

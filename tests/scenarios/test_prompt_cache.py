"""What providers' prompt caches have of an eight-turn thread with two loads, by their documented rules."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from skills_agent.graph import Settings, build_graph
from tests.agents import write_skill
from tests.openai_server import Call, Completion
from tests.strict_providers import Body, StrictServer, anthropic_blocks, strict_server

pytestmark = pytest.mark.slow  # they need the packages of the providers

LOOK_BACK: Final = 20
"""Blocks before a breakpoint in which Anthropic looks for what it has."""
MINIMUM: Final = 1_024
"""Tokens below which Anthropic keeps nothing, for Claude Sonnet."""
RULES: Final = "Weigh each basket twice, and write the weight down before the next one comes. " * 50


class Input(NamedTuple):
    """About how many tokens requests had, and how many of them the cache."""

    tokens: int
    cached: int

    @property
    def share(self) -> float:
        return self.cached / self.tokens


def a_thread(server: StrictServer, workspace: Path, parallel: int = 1) -> None:
    """Run eight turns: two load a skill, and each reads files, so many at once."""
    for name in ("apples", "pears"):
        write_skill(workspace / ".agent" / "skills", name, f"Counts {name} in baskets.", RULES)
    (workspace / "notes.txt").write_text("The north field had 12 baskets.\n" * 20)
    settings = Settings(workspace=workspace, home=workspace, bundled_skills=False)
    graph = build_graph(settings, model=server.model()).compile(InMemorySaver())
    ids = (f"call_{number}" for number in itertools.count())
    for turn in range(8):
        if turn in {0, 4}:
            skill = "apples" if turn == 0 else "pears"
            server.replies.append(Completion(calls=[Call("load_skill", {"name": skill}, next(ids))]))
        reads = [Call("read_file", {"path": "notes.txt"}, next(ids)) for _ in range(parallel)]
        server.replies += [Completion(calls=reads), Completion(f"Turn {turn}: 12 baskets.")]
        request: Any = {"messages": [HumanMessage(f"How many baskets on day {turn}?")]}
        assert graph.invoke(request, {"configurable": {"thread_id": "1"}})["answer"]
    assert server.faults == []
    assert not server.replies


def by_anthropic(requests: Sequence[Body]) -> Input:
    """Replay requests by Anthropic's rule: it writes at breakpoints, and looks back 20 blocks from each."""
    kept: set[str] = set()
    tokens = cached = 0
    for body in requests:
        prefix, prefixes, marked = "", list[str](), list[int]()
        for at, block in enumerate(anthropic_blocks(body)):
            prefix += json.dumps({key: value for key, value in block.items() if key != "cache_control"})
            prefixes.append(prefix)
            if "cache_control" in block:
                marked.append(at)
        near = {at for end in marked for at in range(max(0, end - LOOK_BACK), end + 1)}
        tokens += len(prefix) // 4
        cached += max((len(prefixes[at]) // 4 for at in near if prefixes[at] in kept), default=0)
        kept |= {prefixes[at] for at in marked if len(prefixes[at]) // 4 >= MINIMUM}
    return Input(tokens, cached)


@pytest.mark.parametrize(("parallel", "least"), [(1, 0.87), (12, 0.8)])
def test_anthropics_cache_has_most_of_a_thread(workspace: Path, parallel: int, least: float) -> None:
    """It is found again behind many calls at once; OpenAI's rule is that a prompt grows at its end."""
    with strict_server("anthropic") as server:
        a_thread(server, workspace, parallel)
        measured = by_anthropic(server.requests)
    print(f"Anthropic: {measured.share:.1%} of {measured.tokens:,} tokens in {len(server.requests)} requests")
    assert measured.share >= least

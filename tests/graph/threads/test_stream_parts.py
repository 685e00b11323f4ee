"""A stream of a state where nothing runs is as LangGraph's own."""

from typing import Annotated, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from skills_agent.graph.threads.stream_parts import values_parts


class Talk(TypedDict, total=False):
    """The state of a small graph."""

    said: Annotated[list[str], lambda left, right: [*(left or []), *right]]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stream_mode": "values"},
        {"stream_mode": ["values", "updates"], "subgraphs": True},
        {"stream_mode": "values", "subgraphs": True},
        {"stream_mode": ["updates", "values"], "version": "v2"},
        {"stream_mode": "values", "output_keys": "said"},
        {"stream_mode": "updates"},
    ],
)
def test_a_state_where_nothing_runs_is_streamed_as_langgraph_does(options: dict[str, Any]) -> None:
    builder = StateGraph(Talk)
    builder.add_node("reply", lambda state: {"said": ["x"]})
    builder.add_edge(START, "reply")
    graph = builder.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    graph.invoke({}, config)
    by_langgraph = list(graph.stream(None, config, **options))
    assert values_parts(graph, graph.get_state(config).values, options) == by_langgraph, (
        "LangGraph gives the parts of a stream another form: see _output in langgraph/pregel/main.py, and "
        "let `values_parts` do the same."
    )

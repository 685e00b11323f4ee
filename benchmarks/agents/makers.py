"""The agents that are compared, each as its documentation makes it. `skills-agent eval --agent` calls these.

All have the same model, skills and workspace, tools for its files and for commands, and questions before
what changes something. Ours run commands in the sandbox; those of the neighbours run on this machine.
"""

import subprocess
from pathlib import Path
from typing import Any

from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend, FilesystemBackend, LocalShellBackend
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph

from skills_agent.graph import Settings, build_graph
from skills_agent.parts import Gate, Once, Skills, Workspace
from skills_agent.skills.confined import parts_of
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.sources import DirectorySource

Graph = CompiledStateGraph[Any, Any, Any, Any]
Saver = BaseCheckpointSaver[Any]
SECONDS = 60
"""That a command may take."""


def ours(*, model: BaseChatModel, skills: Path, workspace: Path, checkpointer: Saver) -> Graph:
    """Return our agent."""
    settings = Settings(workspace=workspace)
    builder = build_graph(settings, model=model, sources=[DirectorySource(skills, "project")])
    return builder.compile(checkpointer=checkpointer)


def parts(*, model: BaseChatModel, skills: Path, workspace: Path, checkpointer: Saver) -> Graph:
    """Return `create_agent` with our parts."""
    middleware = [Skills(skills), Gate(), Once(), Workspace(workspace)]
    return create_agent(model, tools=[], middleware=middleware, checkpointer=checkpointer)


def deepagents(*, model: BaseChatModel, skills: Path, workspace: Path, checkpointer: Saver) -> Graph:
    """Return a deep agent, whose skills are below `/skills/` of its files."""
    files = LocalShellBackend(root_dir=workspace, virtual_mode=True, timeout=SECONDS, inherit_env=True)
    backend = CompositeBackend(files, {"/skills/": FilesystemBackend(root_dir=skills, virtual_mode=True)})
    asked = dict.fromkeys(("execute", "write_file", "edit_file"), True)
    return create_deep_agent(
        model, skills=["/skills/"], backend=backend, interrupt_on=dict(asked), checkpointer=checkpointer
    )


def plain(*, model: BaseChatModel, skills: Path, workspace: Path, checkpointer: Saver) -> Graph:
    """Return `create_agent` with a list of skills in its prompt, and a tool that loads one."""
    known = Registry([DirectorySource(skills, "project")]).refresh().loadable()
    texts = {each.name: Path(each.path).read_text(encoding="utf-8") for each in known}
    listed = "\n".join(f"- {each.name}: {each.description}" for each in known)
    prompt = f"You are a helpful assistant. Load a skill before you do what it is for.\n\nSkills:\n{listed}"

    @tool
    def load_skill(name: str) -> str:
        """Load the instructions of a skill."""
        return texts.get(name) or f"There is no skill {name}. There are: {', '.join(texts)}"

    tools = [load_skill, *_file_tools(workspace)]
    asked: Any = HumanInTheLoopMiddleware({"write_file": True, "run_command": True})
    return create_agent(
        model, tools=tools, system_prompt=prompt, middleware=[asked], checkpointer=checkpointer
    )


def _file_tools(workspace: Path) -> list[BaseTool]:
    @tool
    def read_file(path: str) -> str:
        """Read a text file of the workspace."""
        try:
            return _placed(workspace, path).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            return f"{path} cannot be read: {error}"

    @tool
    def write_file(path: str, content: str) -> str:
        """Write a text file of the workspace."""
        try:
            place = _placed(workspace, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content, encoding="utf-8")
        except (OSError, ValueError) as error:
            return f"{path} cannot be written: {error}"
        return f"Wrote {path}."

    @tool
    def run_command(command: str) -> str:
        """Run a shell command in the workspace."""
        try:
            done = subprocess.run(
                command,
                shell=True,
                cwd=workspace,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"It was ended after {SECONDS} seconds."
        return f"{done.stdout}{done.stderr}\nexit code {done.returncode}"

    return [read_file, write_file, run_command]


def _placed(workspace: Path, path: str) -> Path:
    return workspace.joinpath(*parts_of(path.removeprefix(f"{workspace}/")))

"""Begin a process of the command line."""

from skills_agent.graph.cli.garbage import searched_late


def start() -> None:
    """Run the command line in a process of its own."""
    with searched_late():
        from skills_agent.graph.cli.main import main

        main()

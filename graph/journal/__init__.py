"""Where the journal is kept: a file of its own, or LangGraph's store."""

from skills_agent.graph.journal.choice import Journals
from skills_agent.graph.journal.file import FileJournal
from skills_agent.graph.journal.store import StoreJournal

__all__ = ["FileJournal", "Journals", "StoreJournal"]

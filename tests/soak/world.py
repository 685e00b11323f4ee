"""What is true of the threads of one saver whatever is done to them: a ledger, and what it forbids."""

import json
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.forked import FindingError, killed_after, run_forked
from tests.soak import agent
from tests.soak.agent import Operation, Place
from tests.soak.provider import ASKS, CUT, turn_of

TOKEN_OF: Mapping[str, Callable[[Any], str]] = {
    "run_script": lambda args: args.get("args", [""])[0],
    "note": lambda args: args.get("text", ""),
}


@dataclass
class World:
    """The threads of one saver, and what a person knows of them."""

    place: Place
    said: dict[str, list[str]] = field(default_factory=dict)
    """Of each thread, the ids of what the person said and the agent answered, in order."""
    allowed: Counter[str] = field(default_factory=Counter)
    """How often each token may have been done beside the first time, because a person said so."""
    open_turns: Counter[str] = field(default_factory=Counter)
    """How often a turn was forked in the middle: each thread goes on with it, and does what it asks for."""
    approved: set[str] = field(default_factory=set)
    """Tokens of scripts that a person approved."""
    log: list[str] = field(default_factory=list)

    def do(self, operation: Operation, kill_after: float | None = None) -> str:
        """Do one thing, perhaps killed after some seconds; return the error's name, `killed` or nothing."""
        self.log.append(f"{operation.text()}{f' killed after {kill_after:.2f} s' if kill_after else ''}")
        (self.place.folder / agent.OUTCOME).unlink(missing_ok=True)
        if kill_after is None:
            code = run_forked(agent.perform, self.place, operation)
        else:
            code = run_forked(killed_after, kill_after, agent.perform, self.place, operation)
        if code == -signal.SIGKILL:
            self.log.append("  killed")
            return "killed"
        outcome = json.loads((self.place.folder / agent.OUTCOME).read_text())
        if outcome["error"]:
            self.log.append(f"  {outcome['error']}: {outcome['text'][:200]}")
        return str(outcome["error"])

    def look(self, thread: str) -> dict[str, Any]:
        """Return what a person sees of a thread, held against the ledger. Raises FindingError."""
        run_forked(agent.look, self.place, thread)
        status: dict[str, Any] = json.loads((self.place.folder / agent.STATUS).read_text())
        self.check(thread, status)
        return status

    def remember(self, thread: str) -> None:
        """Note what is in a thread after an invocation that ended by itself: it must stay there."""
        status = self.look(thread)
        self.said[thread] = [each["id"] for each in status["messages"] if each["type"] != "tool"]

    def fork(self, thread: str, new: str, chance: float) -> bool:
        """Fork a thread; return whether it can be. What its transcript lacks may be done again there."""
        run_forked(agent.fork, self.place, thread, new, chance)
        status = json.loads((self.place.folder / agent.STATUS).read_text())
        self.log.append(f"fork {thread} to {new}: {status.get('error', 'done')[:200]}")
        if "error" in status:
            return False
        answered = {each["answers"] for each in status["messages"]}
        has = {token for token, call in tokens_in(status).items() if call in answered}
        self.allowed.update(set(self.place.done()) | self.approved - has)
        known = {each["id"] for each in status["messages"]}
        self.said[new] = [each for each in self.said[thread] if each in known]
        said = [each["text"] for each in status["messages"] if each["text"].startswith(ASKS)]
        self.open_turns.update(map(turn_of, said[-1:]))
        return True

    def decide(self, question: Sequence[Mapping[str, Any]], kind: str) -> dict[str, Any]:
        """Return a person's answer to a question, `approve` or `reject`, and note what it allows."""
        for request in question:
            token = TOKEN_OF[request["name"]](request["args"])
            if kind == "approve":
                self.approved.add(token)
                self.allowed[token] += is_unknown(request)
        told = {"type": kind} if kind == "approve" else {"type": kind, "message": "not now"}
        return {"decisions": [told for _ in question]}

    def check(self, thread: str, status: Mapping[str, Any]) -> None:
        """Hold a thread against the ledger. Raises FindingError."""
        messages = status["messages"]
        done = Counter(self.place.done())
        tokens = tokens_in(status)
        results = {each["answers"]: each["text"] for each in messages if each["answers"]}
        asked = Counter(id_ for each in messages for id_ in each["asked"])
        answers = Counter(each["answers"] for each in messages if each["answers"])
        ids = [each["id"] for each in messages]
        claimed = {token for token, call in tokens.items() if f"did {token}" in results.get(call, "")}
        faults = {
            "what was said and answered is lost": [each for each in self.said[thread] if each not in ids],
            "two calls have one id": [each for each, count in asked.items() if count > 1],
            "a call has two answers": [each for each, count in answers.items() if count > 1],
            "an answer to no call": [each for each in answers if each not in asked],
            "a call without an answer": [
                each for each in asked if each not in answers and not status["is_open"]
            ],
            "told as done, and was not": [each for each in claimed if not done[each]],
            "a client's word was believed": [
                each for each in results.values() if each.startswith("Successfully handled")
            ],
            "repeated unasked": [each for each, count in done.items() if count > 1 + self._more(each)],
            "done without approval": [each for each in self._scripts_done() if each not in self.approved],
            "done from an incomplete reply": [each for each in done if each.startswith(CUT)],
        }
        if found := {fault: what for fault, what in faults.items() if what}:
            raise FindingError(f"{thread}: {found}")

    def _more(self, token: str) -> int:
        return self.allowed[token] + self.open_turns[token.partition("-")[0]]

    def _scripts_done(self) -> list[str]:
        file = self.place.folder / agent.SCRIPTS_DID
        return file.read_text().split() if file.exists() else []


def is_unknown(request: Mapping[str, Any]) -> bool:
    """Return whether a question is about a call whose outcome nobody knows."""
    return "unknown" in request["description"].lower()


def tokens_in(status: Mapping[str, Any]) -> dict[str, str]:
    """Return the tokens of the calls of a transcript, with the ids of their calls."""
    return {
        TOKEN_OF[call["name"]](call["args"]): call["id"]
        for each in status["messages"]
        for call in each["calls"]
        if call["name"] in TOKEN_OF
    }

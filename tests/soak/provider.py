"""A provider in a process of its own: its answers follow from the conversation, some of them broken.

Each call has a token that no other call has, made from the person's words and the number of the step. So a
model that is asked again after a crash wants the same call again, and whoever counts the tokens on the disk
sees what was done twice.
"""

import hashlib
import json
import multiprocessing
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from tests.openai_server import Answer, Call, Completion, Cut, error, openai_server

SKILL = "alpha"
SCRIPT = "scripts/append.py"
ASKS = "request "
"""How everything begins that a person says: a prompt has other messages of that role."""
CUT = "cut"
"""How the tokens begin of calls in replies that never arrive whole: nothing of them may ever happen."""
MAX_SENT = 550
"""Bytes of a reply that is cut: the shortest has 601."""
_FRAMINGS: Any = ("close", "length", "chunked", "reset")


@contextmanager
def provider(seed: int, faults: float) -> Iterator[str]:
    """Serve until the block ends; yield the base URL. `faults` is the share of replies that go wrong."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=_serve, args=(theirs, seed, faults), daemon=True
    )
    process.start()
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()


def _serve(pipe: Connection, seed: int, faults: float) -> None:
    chance = random.Random(seed)

    def respond(body: dict[str, Any]) -> Answer:
        reply = reply_to(body["messages"])
        return _spoiled(reply, chance) if chance.random() < faults else reply

    with openai_server() as server:
        server.respond = respond
        pipe.send(server.base_url)
        while True:
            time.sleep(60)


def reply_to(messages: Sequence[dict[str, Any]]) -> Completion:
    """Return the reply that a conversation has, and no other."""
    said = [
        index
        for index, message in enumerate(messages)
        if message["role"] == "user" and text_of(message).startswith(ASKS)
    ]
    if not said:
        return Completion("nothing was asked")
    words = text_of(messages[said[-1]])
    since = [message for message in messages[said[-1] :] if message["role"] == "assistant"]
    steps = sum(bool(message.get("tool_calls")) for message in since)
    is_loaded = any(
        call["function"]["name"] == "load_skill"
        for message in messages
        for call in message.get("tool_calls") or ()
    )
    plan = random.Random(words)
    wanted = [plan.choice(("one", "two", "mixed", "note")) for _ in range(plan.choice((0, 1, 1, 2, 3)))]
    if wanted and not is_loaded:
        return Completion("", [Call("load_skill", {"name": SKILL}, _id())])
    if steps >= len(wanted):
        return Completion(f"answer to {words}")
    return Completion("", list(_calls(wanted[steps], words, steps)))


def _calls(kind: str, words: str, step: int) -> Iterator[Call]:
    tokens = [f"{turn_of(words)}-{step}-{number}" for number in (0, 1)]
    for number, token in enumerate(tokens[: 1 if kind in {"one", "note"} else 2]):
        is_note = kind == "note" or (kind == "mixed" and number == 1)
        yield _note(token) if is_note else _run(token)


def turn_of(words: str) -> str:
    """Return how the tokens begin of every call in the turn of these words."""
    return hashlib.sha256(words.encode()).hexdigest()[:10]


def _run(token: str) -> Call:
    return Call("run_script", {"skill": SKILL, "path": SCRIPT, "args": [token]}, _id())


def _note(token: str) -> Call:
    return Call("note", {"text": token}, _id())


def _id() -> str:
    return f"call_{random.getrandbits(48):x}"


def _spoiled(reply: Completion, chance: random.Random) -> Answer:
    """Return a reply as a bad provider or a bad line delivers it."""
    lost = f"{CUT}-{chance.getrandbits(40):x}"
    lost_calls = [_note(lost), _run(f"{lost}-b")] if reply.calls else []
    match chance.choice(("cut", "cut", "limit", "same ids", "no ids", "refused", "unreadable")):
        case "cut":
            whole = Completion(reply.text, lost_calls)
            # Never so late that nothing but the end of a stream is missing, or nothing of a whole body.
            return Cut(whole, chance.randrange(1, MAX_SENT), chance.choice(_FRAMINGS))
        case "limit" if reply.calls:
            half = json.dumps({"text": lost})[: chance.randrange(0, 20)]
            return Completion("", [Call("note", half, _id())], finish="length")
        case "same ids":
            return reply._replace(calls=[call._replace(id="call_0") for call in reply.calls])
        case "no ids":
            return reply._replace(calls=[call._replace(id="") for call in reply.calls])
        case "unreadable" if reply.calls:
            return reply._replace(calls=[*reply.calls, Call("note", '{"text": "' + lost, _id())])
        case _:
            return error(chance.choice((429, 500, 503)), "try again")


def text_of(message: dict[str, Any]) -> str:
    """Return the text of a message of the protocol."""
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)

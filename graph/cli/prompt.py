"""Where a person types on a terminal: the messages of a chat, and the arguments of a call.

What is pasted is one text (bracketed paste). Enter sends; Esc-Enter, Alt-Enter, or `\\` before Enter, begin a
new line. prompt_toolkit is imported here alone, for a terminal.
"""

import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app_or_none
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.history import DummyHistory, FileHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from skills_agent.graph.cli.printing import line_of, shown

MAX_CHARACTERS: Final = 10_000
"""Of a text in the history: a longer one was pasted, and is not kept."""
_CONTINUED: Final = "\\"


class TextPrompt:
    """Reads texts of one or more lines, with a history and completion of their first word."""

    def __init__(self, history: Path | None = None) -> None:
        """Keep no history where no file is named: it lies in a folder of this user alone."""
        # A terminal that does not say where its cursor is is warned about.
        os.environ["PROMPT_TOOLKIT_NO_CPR"] = "1"
        self._session: PromptSession[str] = PromptSession(
            history=_TypedLines(str(history)) if history else DummyHistory(),
            multiline=True,
            key_bindings=_keys(),
            prompt_continuation=lambda width, *_: " " * width,
            enable_suspend=True,
        )
        # Keys that came together with those of an earlier prompt are not meant for this one.
        clear_typeahead(self._session.input)

    def read(self, before: str, *, begun: str = "", words: Mapping[str, str] | None = None) -> str:
        """Return a text after the words `before`; it begins with `begun`.

        Tab completes a first word of `words`, which says something of each. Raises EOFError for Ctrl-D where
        there is no text, and KeyboardInterrupt for Ctrl-C; `dropped` has the text then.
        """
        plain = {word: line_of(about, 60) for word, about in (words or {}).items() if shown(word) == word}
        completer = WordCompleter(sorted(plain), meta_dict=plain, pattern=re.compile(r"^\S+"))
        with _left_on_sigterm() as leave_if_received:
            return self._session.prompt(
                before,
                default=begun,
                completer=completer,
                complete_while_typing=bool(plain),
                pre_run=leave_if_received,
            )

    @property
    def dropped(self) -> str:
        """Return the text that Ctrl-C ended."""
        return self._session.default_buffer.text


class _TypedLines(FileHistory):
    def store_string(self, string: str) -> None:
        """Write a text at the end of the file, but for what begins with a space, as in a shell."""
        if not string.startswith(" ") and len(string) <= MAX_CHARACTERS:
            with suppress(OSError):
                super().store_string(string)


@contextmanager
def _left_on_sigterm() -> Iterator[Callable[[], None]]:
    """Let SIGTERM end the prompt as Ctrl-D does; who waits for the signal gets it when nothing is drawn.

    What a handler raises comes out of any line: out of a half drawn one, or a destructor, which loses it.
    Yields what the prompt calls when it begins, for a signal that came before.
    """
    is_received = False

    def leave_if_received() -> None:
        app = get_app_or_none()
        if is_received and app and app.future and not app.future.done():
            app.exit(exception=EOFError)

    def receive(*_: object) -> None:
        nonlocal is_received
        is_received = True
        if (app := get_app_or_none()) and app.loop:
            app.loop.call_soon_threadsafe(leave_if_received)

    before = signal.signal(signal.SIGTERM, receive)
    try:
        yield leave_if_received
    finally:
        signal.signal(signal.SIGTERM, before)
        if is_received:
            signal.raise_signal(signal.SIGTERM)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.current_line_before_cursor.endswith(_CONTINUED):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    return keys

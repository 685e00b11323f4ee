"""Where a person types on a terminal: the messages of a chat, and the arguments of a call.

What is pasted is one text (bracketed paste). Enter sends; Esc-Enter, Alt-Enter, or `\\` before Enter, begin a
new line. prompt_toolkit is imported here and in what this file imports, for a terminal alone.
"""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.history import DummyHistory, History
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.validation import ValidationError, Validator

from skills_agent.graph.places import process_environment

Fault = tuple[int, str]
"""Where in a text something is wrong, in characters from its beginning, and what."""

_CONTINUED: Final = "\\"


class TextPrompt:
    """Reads texts of one or more lines, with a history and completion."""

    def __init__(
        self,
        history: History | None = None,
        *,
        typed: Input | None = None,
        screen: Output | None = None,
    ) -> None:
        """Keep no history where none is given; `typed` and `screen` are the terminal by default."""
        self._session: PromptSession[str] = PromptSession(
            history=history or DummyHistory(),
            multiline=True,
            key_bindings=_keys(),
            prompt_continuation=lambda width, *_: " " * width,
            enable_suspend=True,
            input=typed,
            output=screen or _screen(),
        )
        # Keys that came together with those of an earlier prompt are not meant for this one.
        clear_typeahead(self._session.input)

    def read(
        self,
        before: str,
        *,
        begun: str = "",
        completer: Completer | None = None,
        fault_of: Callable[[str], Fault | None] | None = None,
    ) -> str:
        """Return a text after the words `before`; it begins with `begun`.

        Where `fault_of` finds a fault, the cursor goes there and the person goes on editing. Raises EOFError
        for Ctrl-D where there is no text, and KeyboardInterrupt for Ctrl-C; `dropped` has the text then.
        """
        with _sigterm_after(self._session.app) as hold_back:
            return self._session.prompt(
                before,
                default=begun,
                completer=completer,
                complete_while_typing=completer is not None,
                validator=_Checked(fault_of) if fault_of else None,
                validate_while_typing=False,
                pre_run=hold_back,
            )

    @property
    def dropped(self) -> str:
        """Return the text that Ctrl-C ended."""
        return self._session.default_buffer.text


class _Terminated(Exception):  # noqa: N818 - no error
    """SIGTERM came while keys were read."""


@contextmanager
def _sigterm_after(prompt: Application[Any]) -> Iterator[Callable[[], None]]:
    """Let SIGTERM end a prompt, and act when the terminal is as it was: the block gets what begins that.

    What a signal's handler raises in an event loop is caught there, and shown as a fault of the program.
    """
    handler = signal.getsignal(signal.SIGTERM)

    def end() -> None:
        if not prompt.is_done:
            prompt.exit(exception=_Terminated)

    def hold_back() -> None:
        signal.signal(signal.SIGTERM, lambda *_: prompt.loop and prompt.loop.call_soon_threadsafe(end))

    try:
        yield hold_back
    except _Terminated:
        signal.signal(signal.SIGTERM, handler)
        signal.raise_signal(signal.SIGTERM)
        raise EOFError from None  # where the signal is ignored
    finally:
        signal.signal(signal.SIGTERM, handler)


class _Checked(Validator):
    def __init__(self, fault_of: Callable[[str], Fault | None]) -> None:
        self._fault_of = fault_of

    def validate(self, document: Document) -> None:
        if fault := self._fault_of(document.text):
            where, what = fault
            raise ValidationError(where, what)


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


def _screen() -> Output:
    """Return the terminal. It is not asked where its cursor is: one that gives no answer is warned about."""
    term = process_environment().get("TERM")
    screen = Vt100_Output.from_pty(sys.stdout, term=term)
    screen.enable_cpr = False
    return screen

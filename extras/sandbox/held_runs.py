"""What is kept of runs that are over: a person decides about some of their changes, or they were cut off.

FOLDER/held-KEY/        the layers of a run, and `held.json` (`layered.py`)
FOLDER/kept-XXXX/       what was taken back of a real folder (`after.py`), and nobody took
"""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Final

from skills_agent.sandbox.apply import Applier
from skills_agent.sandbox.copies import kept_layer
from skills_agent.sandbox.draft import Draft
from skills_agent.sandbox.layer import Layer, diff_of
from skills_agent.sandbox.layered import CONFLICT, HELD, MAX_TOLD, LayerStore, asked_instead
from skills_agent.sandbox.overlay import layer_in
from skills_agent.sandbox.run_folder import BEFORE, RECORD, RUN, Record, locked, read, shown, write
from skills_agent.sandbox.told import summary
from skills_agent.skills.errors import ScriptError, SkillsAgentError
from skills_agent.skills.policy.reasons import Decision
from skills_agent.skills.scripts.changes import JudgedChange
from skills_agent.skills.scripts.run_folders import next_tick
from skills_agent.skills.scripts.runner import SANDBOXED, AskedChange, HeldRun, ScriptResult
from skills_agent.skills.trees import remove_tree

logger = logging.getLogger(__name__)

HELD_SECONDS: Final = 30 * 24 * 3600
"""A run that is held longer is dropped: nobody goes on with its thread."""
CUT_OFF: Final = ("run-*", "applied-*/*.new", "applied-*/*.plan", "applied-*/*.undo")
"""What is left there by an agent that was killed, or of a run that goes on."""
_WAS_CUT_OFF: Final = "the script was cut off"
_KEPT: Final = "kept-"
_JOURNAL: Final = "journal"


def hold(
    store: LayerStore, folder: Path, call: str, label: str, judged: Mapping[Layer, list[JudgedChange]]
) -> Path:
    """Keep what was taken back into layers in a folder: for a call, or for nobody; return where."""
    if not call:
        return _keep(store, folder)
    told = store.all_told(judged)
    result = ScriptResult(None, "", "", 0.0, None, 0, 0, "", changes=tuple(told[:MAX_TOLD]))
    by_name = {layer.content.parent.name: found for layer, found in judged.items()}
    os.utime(folder)  # what was put back has the time of now, and nobody changed it since
    write(folder / RECORD, Record(label, result, next_tick(folder), by_name, is_taken=True))
    return folder.rename(store.held_folder(call))


def finish(store: LayerStore, call: str, result: ScriptResult) -> None:
    """Keep the result of a run with what is held for its call, if something is."""
    path = store.held_folder(call) / RECORD
    if call and (record := read(path)):
        write(path, record._replace(result=result))


def taker(store: LayerStore, layer: Layer) -> Applier:
    """Return what takes back from a real folder what is in a layer then."""
    return Applier(layer.lower, store.own(layer.lower), layer.content.parent / _JOURNAL)


def held(store: LayerStore, call: str) -> HeldRun | None:
    """Return the run of a call of which a person has not decided about all changes."""
    if call and any(store.folder.glob(f"{RUN}*.{call}")):
        recover(store)
    if not call or not (record := read(store.held_folder(call) / RECORD)):
        return None
    asked = [
        AskedChange(store.told(layer, judged), diff_of(layer, judged.change))
        for layer, found in _held_layers(store, call, record)
        for judged in found
        if judged.decision == "ask" and judged.why != _WAS_CUT_OFF
    ]
    return HeldRun(record.result, tuple(asked))


def settle(store: LayerStore, call: str, *, applied: bool) -> ScriptResult:
    """Apply the changes that a person was asked about, or drop them; return the result with that.

    Raises ScriptError, also where nothing is held.
    """
    folder = store.held_folder(call)
    if not (record := read(folder / RECORD)):
        raise ScriptError("No changes are held for this call.")
    told: list[str] = []
    changed: list[str] = []
    for layer, judged in _held_layers(store, call, record):
        found = [each for each in judged if each.decision == "ask"]
        told += [store.path(layer, each.change.path) for each in found]
        known = {each.change.path for each in found if each.why == CONFLICT}
        if applied:
            new = [each.change for each in found]
            applier = store.applier(layer.lower)
            content, moment = layer.content, layer.moment
            apply = partial(applier.apply, content, moment, new, label=record.label, run=call)
            conflicts = apply()
            if conflicts and known.issuperset(path for path, _ in conflicts):
                conflicts = apply(over_conflicts=True)
            changed += [store.path(layer, path) for path, _ in conflicts]
    text = f"{'Applied' if applied else 'Dropped'}: {shown(told)}."
    if changed:
        text = f"Not applied, as {shown(changed)} changed meanwhile: {shown(told)}."
    decision: Decision = "allow" if applied and not changed else "deny"
    decided = [
        store.told(layer, each._replace(decision=decision) if each.decision == "ask" else each)
        for layer, found in _held_layers(store, call, record)
        for each in found
    ]
    if record.is_taken and (changed or not applied):
        text += f" It lies in {_keep(store, folder)} for a month."
    else:
        _discard(store, folder)
    return replace(
        record.result,
        notices=(*record.result.notices, text),
        changes=tuple(decided[:MAX_TOLD]),
        changed=summary(decided),
    )


def recover(store: LayerStore) -> list[str]:
    """Finish what was cut off with the agent; return what came of it, in sentences."""
    notices = store.applier(store.workspace).recover()
    for folder in store.folder.iterdir():
        is_held = folder.name.startswith(_KEPT) or (
            folder.name.startswith(HELD) and (folder / RECORD).exists()
        )
        if folder.name.startswith((RUN, HELD, _KEPT)) and not (folder / BEFORE).exists():
            with suppress(OSError):
                notices += _recovered(store, folder, is_held=is_held)
    return notices


def _keep(store: LayerStore, folder: Path) -> Path:
    return folder.rename(store.folder / f"{_KEPT}{token_hex(8)}")


def _discard(store: LayerStore, folder: Path) -> None:
    """Remove the layers in a folder, and what was taken back with them."""
    for journal in folder.glob(f"*/{_JOURNAL}"):
        with suppress(OSError):
            taker(store, layer_in(journal.parent)).forget()
    remove_tree(folder)


def _recovered(store: LayerStore, folder: Path, *, is_held: bool) -> list[str]:
    if is_held:
        if time.time() - folder.stat().st_mtime > HELD_SECONDS:
            _discard(store, folder)
        return []
    descriptor = locked(folder)
    is_run = folder.name.startswith(RUN)
    try:
        text = _kept(store, folder, folder.name.partition("." if is_run else "-")[2])
    except SkillsAgentError as error:
        remove_tree(folder)
        text = str(error)
    finally:
        os.close(descriptor)
    notices = [f"A script was cut off with the agent. {text}"] if text else []
    for notice in notices:
        logger.warning("%s", notice)
    return notices


def _kept(store: LayerStore, folder: Path, call: str) -> str:
    """Hold what a run that was cut off had changed, if its call can go on; return what to tell."""
    by_name, told, moment = dict[str, list[JudgedChange]](), list[JudgedChange](), 0
    for lower in sorted(folder.glob("*/lower")):
        layer = kept_layer(lower.parent)
        moment = layer.moment
        found = [asked_instead(each, _WAS_CUT_OFF) for each in store.judged(layer, ())]
        asked = [each.change for each in found if each.decision == "ask"]
        with suppress(OSError):  # what cannot be looked at cannot be applied, and is told then
            paths = {each.path for each in Draft(asked, layer.lower, moment).conflicts}
            found = [each._replace(why=CONFLICT) if each.change.path in paths else each for each in found]
        by_name[lower.parent.name] = found
        told += [store.told(layer, each) for each in found if each.decision == "ask"]
    changed = summary(each._replace(decision="allow") for each in told)
    if not call or not changed:
        remove_tree(folder)
        return changed and f"What it did in a copy of the workspace is dropped: it {changed}."
    result = ScriptResult(None, "", "", 0, "cut off", 0, 0, SANDBOXED, changed=changed)
    write(folder / RECORD, Record("a script that was cut off", result, moment, by_name))
    if folder != (held := store.held_folder(call)):
        remove_tree(held)  # of an earlier attempt
        folder.rename(held)
    return f"In a copy of the workspace it {changed}. To apply that or not: skills-agent resume"


def _held_layers(store: LayerStore, call: str, record: Record) -> Iterator[tuple[Layer, list[JudgedChange]]]:
    for name, judged in record.judged.items():
        yield layer_in(store.held_folder(call) / name, record.moment), judged

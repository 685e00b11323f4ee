"""What is kept of runs that are over: a person decides about some of their changes, or they were cut off.

FOLDER/held-KEY/        the layers of a run, and `held.json` (`layered.py`)
FOLDER/kept-XXXX/       what was taken back of a real folder (`after.py`), and nobody took
FOLDER/copy-XXXX/       a copy that no run works in (`copies.py`)
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
from skills_agent.sandbox.copies import COPY, kept_layer
from skills_agent.sandbox.draft import Draft
from skills_agent.sandbox.layer import Layer, diff_of
from skills_agent.sandbox.layered import (
    CONFLICT,
    HELD,
    MAX_TOLD,
    LayerStore,
    asked_instead,
    related,
    with_conflicts,
)
from skills_agent.sandbox.overlay import layer_in
from skills_agent.sandbox.run_folder import BEFORE, RECORD, RUN, Record, locked, read, shown, write
from skills_agent.sandbox.scan import closed_after
from skills_agent.sandbox.told import summary
from skills_agent.skills.errors import ScriptError, SkillsAgentError
from skills_agent.skills.policy.reasons import Decision
from skills_agent.skills.scripts.changes import Change, JudgedChange
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
_SAID: Final[dict[Decision, str]] = {"allow": "Applied", "deny": "Dropped"}
_JOURNAL: Final = "journal"


def hold(
    store: LayerStore, folder: Path, call: str, label: str, judged: Mapping[Layer, list[JudgedChange]]
) -> Path:
    """Keep what was taken back into layers in a folder: for a call, or for nobody; return where."""
    if not call:
        return folder.rename(store.folder / f"{_KEPT}{token_hex(8)}")
    told = store.all_told(judged)
    result = ScriptResult(None, "", "", 0.0, None, 0, 0, "", changes=tuple(told[:MAX_TOLD]))
    by_name = {layer.content.parent.name: found for layer, found in judged.items()}
    os.utime(folder)  # what was put back has the time of now, and nobody changed it since
    write(folder / RECORD, Record(label, result, next_tick(folder), by_name, is_taken=True))
    return folder.rename(store.held_folder(call))


def waiting(store: LayerStore) -> list[Record]:
    """Return the runs that wait for a person."""
    folders = [path.parent for path in store.folder.glob(f"{HELD}*/{RECORD}")]
    records = (_record(store, folder) for folder in folders)
    return [record for record in records if record and not record.is_settled]


def _record(store: LayerStore, folder: Path) -> Record | None:
    """Return the record of a run that is held; of a damaged one, the files stay for a month."""
    try:
        return read(folder / RECORD, Record)
    except FileNotFoundError:
        return None
    except ValueError as error:
        kept = folder.rename(store.folder / f"{_KEPT}{token_hex(8)}")
        text = "changes waited for you, and cannot be applied: %s is damaged (%s). They lie in %s for a month"
        logger.warning(text, RECORD, error, kept)
        return None


def finish(store: LayerStore, call: str, result: ScriptResult) -> None:
    """Keep the result of a run with what is held for its call, if something is."""
    folder = store.held_folder(call)
    if call and (record := _record(store, folder)) and not record.is_settled:
        write(folder / RECORD, record._replace(result=result))


def taker(store: LayerStore, layer: Layer) -> Applier:
    """Return what takes back from a real folder what is in a layer then."""
    return Applier(layer.lower, store.own(layer.lower), layer.content.parent / _JOURNAL)


def held(store: LayerStore, call: str) -> HeldRun | None:
    """Return the run of a call of which a person has not decided about all changes, or has decided since."""
    if call and any(store.folder.glob(f"{RUN}*.{call}")):
        recover(store)
    if not call or not (record := _record(store, store.held_folder(call))):
        return None
    left = [*_left(store, call, record)]
    if not left and not record.is_settled:  # the agent was killed when all was applied
        return HeldRun(settle(store, call, applied=True, by="approval"), (), is_settled=True)
    open_ = [(layer, judged) for layer, found in left for judged in found if judged.decision == "ask"]
    asked = [
        AskedChange(store.told(layer, judged), diff_of(layer, judged.change))
        for layer, judged in open_
        if judged.why != _WAS_CUT_OFF
    ]
    waits = summary(store.told(layer, judged)._replace(decision="allow") for layer, judged in open_)
    return HeldRun(record.result, tuple(asked), record.is_taken, record.is_settled, waits)


def settle(store: LayerStore, call: str, *, applied: bool, by: str, why: str = "") -> ScriptResult:
    """Apply the changes that a person was asked about, or drop them; return the result with that.

    `by` is who decides (`ScriptResult.settled_by`), `why` a sentence for the model. Again, it returns the
    same. Raises ScriptError where nothing is held; also, as OSError, where changes cannot be applied: then
    they are held as before, and what is in the way is asked about as such.
    """
    folder = store.held_folder(call)
    if not (record := _record(store, folder)):
        raise ScriptError("No changes are held for this call.")
    if record.is_settled:
        return record.result
    left = [*_left(store, call, record)]
    notices = _applied(store, call, record, left) if applied else []
    told, decided = dict[str, list[str]](), list[JudgedChange]()
    for each in _held_layers(store, call, record):
        decision: Decision = "allow" if applied or each not in left else "deny"
        for judged in (store.told(each[0], change) for change in each[1]):
            if judged.decision != "ask":
                decided.append(judged)
                continue
            decided.append(judged._replace(decision=decision))
            told.setdefault(_SAID[decision], []).append(judged.change.path)
    notices += [f"{act}: {shown(paths)}." for act, paths in told.items()]
    is_kept = record.is_taken and not applied
    notices += [f"It lies in {folder} for a month."] if is_kept else []
    result = replace(
        record.result,
        notices=(*record.result.notices, *notices, *filter(None, [why])),
        changes=tuple(decided[:MAX_TOLD]),
        changed=summary(decided),
        settled_by=by,
    )
    write(folder / RECORD, record._replace(result=result, judged={}, is_settled=True))
    if not is_kept:
        _discard_layers(store, folder)
    return result


def recover(store: LayerStore) -> list[str]:
    """Finish what was cut off with the agent; return what came of it, in sentences."""
    notices = store.applier(store.workspace).recover()
    for folder in store.folder.iterdir():
        is_held = folder.name.startswith((_KEPT, COPY)) or (
            folder.name.startswith(HELD) and (folder / RECORD).exists()
        )
        if folder.name.startswith((RUN, HELD, _KEPT, COPY)) and not (folder / BEFORE).exists():
            with suppress(OSError):
                notices += _recovered(store, folder, is_held=is_held)
    return notices


def _asked(judged: list[JudgedChange]) -> list[Change]:
    return [each.change for each in judged if each.decision == "ask"]


def _left(store: LayerStore, call: str, record: Record) -> Iterator[tuple[Layer, list[JudgedChange]]]:
    """Yield the layers of which something is asked about that is not applied."""
    for layer, judged in _held_layers(store, call, record):
        if (asked := _asked(judged)) and not store.applier(layer.lower).has_applied(asked, call):
            yield layer, judged


def _applied(
    store: LayerStore, call: str, record: Record, left: list[tuple[Layer, list[JudgedChange]]]
) -> list[str]:
    """Apply what is asked about in some layers; return sentences about it. Raises as `settle` does."""
    notices: list[str] = []
    for layer, judged in left:
        known = {each.change.path for each in judged if each.why == CONFLICT}
        applier = store.applier(layer.lower)
        apply = partial(
            applier.apply, layer.content, layer.moment, _asked(judged), label=record.label, run=call
        )
        conflicts = {path for path, _ in apply()}
        if conflicts and related(conflicts, known) == conflicts:
            conflicts = {path for path, _ in apply(over_conflicts=True)}
        if conflicts:
            judged[:] = with_conflicts(judged, conflicts)
            write(store.held_folder(call) / RECORD, record)
            paths = shown([store.path(layer, path) for path in sorted(conflicts)])
            raise ScriptError(f"{paths} changed meanwhile. Approved again, the changes go over that.")
        notices += applier.notices
    return notices


def _discard_layers(store: LayerStore, folder: Path) -> None:
    """Remove the layers in a folder, and what was taken back with them."""
    for place in folder.glob("*/"):
        if (place / _JOURNAL).exists():
            with suppress(OSError):
                taker(store, layer_in(place)).forget()
        remove_tree(place)


def _recovered(store: LayerStore, folder: Path, *, is_held: bool) -> list[str]:
    if is_held:
        if time.time() - folder.stat().st_mtime < HELD_SECONDS:
            return []
        record = _record(store, folder)
        _discard_layers(store, folder)
        remove_tree(folder)
        if not record or record.is_settled:
            return []
        text = f"Nobody decided for 30 days about what {record.label} changed, and it is dropped."
        logger.warning("%s", text)
        return [text]
    is_run = folder.name.startswith(RUN)
    with closed_after(locked(folder)):
        try:
            text = _kept(store, folder, folder.name.partition("." if is_run else "-")[2])
        except SkillsAgentError as error:
            remove_tree(folder)
            text = str(error)
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
        with suppress(OSError):  # what cannot be looked at cannot be applied, and is told then
            paths = {path for path, _ in Draft(_asked(found), layer.lower, moment).conflicts}
            found = with_conflicts(found, paths)
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

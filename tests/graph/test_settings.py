"""Settings: three sources, one name a field, and no value is taken that does not fit."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.settings import Settings, SettingsError
from skills_agent.state.budget import Limits
from skills_agent.state.context import Context


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


def config(folder: Path, text: str, name: str = "config.json") -> None:
    (folder / ".agent").mkdir(exist_ok=True)
    (folder / ".agent" / name).write_text(text)


def test_code_is_stronger_than_the_file_and_the_file_than_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Settings.load().max_model_calls == 12
    monkeypatch.setenv("SKILLS_AGENT_MAX_MODEL_CALLS", "7")
    assert Settings.load().max_model_calls == 7
    config(tmp_path, '{"max_model_calls": 8}')
    assert Settings.load().max_model_calls == 8
    assert Settings.load(max_model_calls=9).max_model_calls == 9
    assert Settings.load(max_model_calls=None).max_model_calls == 8


def test_the_old_name_of_a_limit_is_read_with_a_warning_that_names_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def check(settings: Settings, calls: int, origin: str) -> None:
        (warning,) = caplog.messages
        caplog.clear()
        assert settings.max_model_calls == calls
        assert all(part in warning for part in ("max_turns", origin, "max_model_calls"))

    check(Settings(max_turns=2), 2, "code")
    check(Settings.load(max_turns=3), 3, "code")
    monkeypatch.setenv("SKILLS_AGENT_MAX_TURNS", "4")
    check(Settings.load(), 4, "SKILLS_AGENT_MAX_TURNS")
    monkeypatch.delenv("SKILLS_AGENT_MAX_TURNS")
    config(tmp_path, '{"max_turns": 5}')
    check(Settings.load(), 5, "config.json")
    old: Any = {"max_turns": 6}
    assert Context(**old).narrow(Limits()).max_model_calls == 6
    assert "context" in caplog.text


def test_a_limit_stands_in_one_place_and_every_limit_is_a_setting() -> None:
    limits = {each.name: each.default for each in dataclasses.fields(Limits)}
    settings = {each.name: each.default for each in dataclasses.fields(Settings)}
    assert limits.items() <= settings.items()
    assert dataclasses.asdict(Context().narrow(Settings(max_tool_calls=3))) == {**limits, "max_tool_calls": 3}


def test_every_kind_of_value_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    values = {
        "SKILLS_DIRS": f"{tmp_path}/a:b",
        "BUNDLED_SKILLS": "false",
        "SCRIPT_TIMEOUT": "2.5",
        "REQUIRE_APPROVAL_FOR": "run, write",
        "MODEL_PARAMETERS": '{"temperature": 0}',
        "MODEL": "offline",
    }
    for name, value in values.items():
        monkeypatch.setenv(f"SKILLS_AGENT_{name}", value)
    settings = Settings.load()
    assert settings.skills_dirs == (tmp_path / "a", tmp_path / "b")
    assert settings.bundled_skills is False
    assert settings.script_timeout == 2.5
    assert settings.require_approval_for == {"run", "write"}
    assert settings.model_parameters == {"temperature": 0}


def test_a_toml_file_says_the_same(tmp_path: Path) -> None:
    config(
        tmp_path,
        'max_model_calls = 3\nrequire_approval_for = ["run"]\nskills_dirs = ["mine"]\n',
        "config.toml",
    )
    settings = Settings.load()
    assert settings.max_model_calls == 3
    assert settings.require_approval_for == {"run"}
    assert settings.skills_dirs == (tmp_path / "mine",)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"max_model_call": 3}, ["max_model_call", "Did you mean max_model_calls?"]),
        ({"zzz": 3}, ["zzz", "Known:"]),
        ({"max_model_calls": "3"}, ["max_model_calls", "int"]),
        ({"max_model_calls": 0}, ["max_model_calls", ">= 1"]),
        ({"max_model_calls": True}, ["max_model_calls"]),
        ({"script_timeout": -1}, ["script_timeout"]),
        ({"require_approval_for": ["running"]}, ["require_approval_for", "running"]),
        ({"skills_dirs": "here"}, ["skills_dirs"]),
        ({"model_parameters": []}, ["model_parameters"]),
        ({"workspace": "/"}, ["workspace"]),
    ],
)
def test_an_unknown_or_ill_typed_value_of_the_file_is_refused_with_its_name(
    tmp_path: Path, values: dict[str, Any], says: list[str]
) -> None:
    config(tmp_path, json.dumps(values))
    with pytest.raises(SettingsError) as refused:
        Settings.load()
    for part in [*says, "config.json"]:
        assert part in str(refused.value)


@pytest.mark.parametrize("text", ["{not json", "[1]", "\xff"])
def test_a_file_that_is_no_object_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    config(tmp_path, text)
    with pytest.raises(SettingsError, match=r"config\.json"):
        Settings.load()


def test_two_files_are_one_too_many(tmp_path: Path) -> None:
    config(tmp_path, "{}")
    config(tmp_path, "", "config.toml")
    with pytest.raises(SettingsError, match="Keep one"):
        Settings.load()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAX_MODEL_CALLS", "many"),
        ("MAX_MODEL_CALL", "3"),
        ("BUNDLED_SKILLS", "perhaps"),
        ("MODEL_PARAMETERS", "{"),
    ],
)
def test_a_bad_variable_is_refused_with_its_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"SKILLS_AGENT_{name}", value)
    with pytest.raises(SettingsError, match=name.lower()):
        Settings.load()


def test_code_is_checked_like_everything_else() -> None:
    with pytest.raises(SettingsError, match="max_model_calls"):
        Settings(max_model_calls="3")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="Did you mean max_model_calls"):
        Settings.load(max_model_call=3)
    with pytest.raises(TypeError, match="max_model_call"):
        Settings(max_model_call=3)  # type: ignore[call-arg]


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Settings().max_model_calls = 3  # type: ignore[misc]


def test_every_setting_is_in_the_docs_and_nothing_else() -> None:
    page = (Path(__file__).resolve().parent.parent.parent / "docs" / "settings.md").read_text()
    documented = set(re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE))
    assert documented == {each.name for each in dataclasses.fields(Settings)}

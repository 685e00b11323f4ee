"""Settings: layers, one name a field, and no value is taken that does not fit."""

import dataclasses
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.settings import Settings, SettingsError, setting_kinds
from skills_agent.graph.user_folders import closed_places
from skills_agent.state.budget import Limits
from skills_agent.state.context import Context
from tests.agents import trust_file_of_workspace
from tests.machine import needs_part


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)


def config(folder: Path, text: str, name: str = "config.json") -> None:
    """Write the file of a workspace, and vouch for it."""
    (folder / ".agent").mkdir(exist_ok=True)
    (folder / ".agent" / name).write_text(text, encoding="latin-1")
    trust_file_of_workspace(folder)


def users_config(folder: Path, text: str) -> Path:
    file = folder / "home" / ".config" / "skills-agent" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o600)
    return file


def test_each_layer_is_stronger_than_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(calls: int, origin: str, **code: Any) -> None:
        settings = Settings.load(**code)
        assert settings.max_model_calls == calls
        assert origin in settings.origins["max_model_calls"]
        assert settings.origins.keys() == setting_kinds().keys()

    check(12, "default")
    config(tmp_path, '{"max_model_calls": 20}')
    check(20, "config.json (trusted)")
    users_config(tmp_path, "max_model_calls = 21")
    check(21, "home/.config/skills-agent/config.toml")
    monkeypatch.setenv("SKILLS_AGENT_MAX_MODEL_CALLS", "22")
    check(22, "SKILLS_AGENT_MAX_MODEL_CALLS")
    check(23, "code", max_model_calls=23)
    check(22, "SKILLS_AGENT_MAX_MODEL_CALLS", max_model_calls=None)


@needs_part("mcp")
def test_mcp_servers_of_all_layers_are_joined_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commands(**code: Any) -> dict[str, str]:
        return {name: server.command for name, server in Settings.load(**code).mcp_servers.items()}

    users_config(tmp_path, '[mcp_servers.a]\ncommand = "user"\n[mcp_servers.b]\ncommand = "user"\n')
    monkeypatch.setenv("SKILLS_AGENT_MCP_SERVERS", '{"b": {"command": "environment"}}')
    assert commands() == {"a": "user", "b": "environment"}
    origin = Settings.load().origins["mcp_servers"]
    assert origin.endswith("config.toml, SKILLS_AGENT_MCP_SERVERS")
    more = {"b": {"command": "code"}, "c": {"command": "code"}}
    assert commands(mcp_servers=more) == {"a": "user", "b": "code", "c": "code"}
    files = {name: {"command": "workspace"} for name in "abd"}
    (tmp_path / ".agent").mkdir()
    (tmp_path / ".agent" / "config.json").write_text(json.dumps({"mcp_servers": files}))
    assert commands() == {"a": "user", "b": "environment"}
    config(tmp_path, json.dumps({"mcp_servers": files}))
    assert commands() == {"a": "user", "b": "environment", "d": "workspace"}
    assert "(trusted)" in Settings.load().origins["mcp_servers"]


def test_a_limit_stands_in_one_place_and_every_limit_is_a_setting() -> None:
    limits = {each.name: each.default for each in dataclasses.fields(Limits)}
    settings = {each.name: each.default for each in dataclasses.fields(Settings) if each.name in limits}
    assert limits.items() <= settings.items()
    assert dataclasses.asdict(Context().narrow(Settings(max_tool_calls=3))) == {**limits, "max_tool_calls": 3}


def test_every_kind_of_value_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    values: dict[str, tuple[str, Any]] = {
        "skills_dirs": (f"{tmp_path}/a:b", (tmp_path / "a", tmp_path / "b")),
        "bundled_skills": ("false", False),
        "script_timeout": ("2.5", 2.5),
        "require_approval_for": ("run, write", {"run", "write"}),
        "model_parameters": ('{"temperature": 0}', {"temperature": 0}),
        "model": ("offline", "offline"),
    }
    for name, (text, _) in values.items():
        monkeypatch.setenv(f"SKILLS_AGENT_{name.upper()}", text)
    settings = Settings.load()
    assert {name: getattr(settings, name) for name in values} == {
        name: each for name, (_, each) in values.items()
    }


def test_what_is_believed_is_in_no_relative_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A relative folder is in whatever repository is opened; one that is named in code is meant.

    The attack: a repository brings the user's own file of settings, or the list of what is trusted.
    """
    monkeypatch.setenv("SKILLS_AGENT_SKILLS_DIRS", "given:/mine")
    assert Settings.load(tmp_path).offered_dirs == (tmp_path / "given",)
    assert Settings.load(tmp_path, skills_dirs=[Path("given")]).offered_dirs == ()
    monkeypatch.setenv("HOME", "mine")
    with pytest.raises(SettingsError, match="must be an absolute path, not 'mine'"):
        Settings.load()


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"max_model_call": 3}, ["max_model_call", "Did you mean max_model_calls?"]),
        ({"zzz": 3}, ["zzz", "Known:"]),
        ({"max_model_calls": "3"}, ["max_model_calls", "int"]),
        ({"max_model_calls": 0}, ["max_model_calls", ">= 1"]),
        ({"max_model_calls": True}, ["max_model_calls"]),
        ({"skills_dir": ["x"]}, ["skills_dir", "Did you mean skills_dirs?"]),
        pytest.param({"server": {"tokens": "x"}}, ["server_tokens cannot be"], marks=needs_part("server")),
        pytest.param({"sandbox_network": ["x"]}, ["sandbox_network cannot be"], marks=needs_part("sandbox")),
        pytest.param(
            {"mcp": {"servers": {}}, "mcp_servers": {}}, ["mcp_servers twice"], marks=needs_part("mcp")
        ),
        ({"mcp": {"servers": {"x": 1}}}, ["mcp_servers"]),
        ({"sandbox": "of"}, ["sandbox", "'of'", "Values: auto, require, off."]),
        ({"skills_dirs": "here"}, ["skills_dirs"]),
        ({"model_parameters": []}, ["model_parameters"]),
        *(({name: "/"}, [name]) for name in ("workspace", "home", "origins", "offered_dirs", "waived_risks")),
    ],
)
def test_an_unknown_or_ill_typed_value_of_a_trusted_file_is_refused_with_its_name(
    tmp_path: Path, values: dict[str, Any], says: list[str]
) -> None:
    config(tmp_path, json.dumps(values))
    with pytest.raises(SettingsError) as refused:
        Settings.load()
    for part in [*says, "config.json"]:
        assert part in str(refused.value)


@needs_part("server")
def test_the_users_file_counts_in_every_workspace_and_is_closed_to_scripts_wherever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = users_config(tmp_path, 'skills_dirs = ["mine", "~/more"]\n[server]\ntokens = "/t"')
    (tmp_path / "else").mkdir()
    for workspace in (tmp_path, tmp_path / "else"):
        settings = Settings.load(workspace)
        assert settings.skills_dirs == (file.parent / "mine", tmp_path / "home" / "more")
        assert settings.extras == {"server_tokens": Path("/t")}
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    (tmp_path / "settings" / "skills-agent").mkdir(parents=True)
    assert tmp_path / "settings" / "skills-agent" in closed_places(Settings.load(tmp_path))


@pytest.mark.parametrize(
    ("write", "texts", "path"),
    [
        (config, ["{not json", "[1]", "\xff", '{"model": "a", "model": "b"}'], r"config\.json"),
        (users_config, ["model = ", "max_model_call = 3", "workspace = '/'"], r"skills-agent/config\.toml"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_with_its_path(
    tmp_path: Path, write: Callable[[Path, str], object], texts: list[str], path: str
) -> None:
    for text in texts:
        write(tmp_path, text)
        with pytest.raises(SettingsError, match=path):
            Settings.load()


ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("chmod 620", "chmod go-w"),
        ("chmod 602", "chmod go-w"),
        ("rm config.toml; mkfifo", "not a regular file"),
        pytest.param("chown 65534:65534", "another user", marks=ROOT),
    ],
)
def test_a_users_file_that_others_may_have_written_is_refused(tmp_path: Path, change: str, says: str) -> None:
    file = users_config(tmp_path, 'sandbox = "off"')
    subprocess.run(["sh", "-ec", f"{change} config.toml"], cwd=file.parent, check=True)
    with pytest.raises(SettingsError, match=says):
        Settings.load()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAX_MODEL_CALLS", "many"),
        ("MAX_MODEL_CALL", "3"),
        ("BUNDLED_SKILLS", "x"),
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


@pytest.mark.parametrize("name", ["server_tokens", "mcp_servers"])
def test_a_setting_of_a_part_that_is_not_installed_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("skills_agent.graph.setting_values.extras", tuple)
    monkeypatch.setattr("skills_agent.graph.setting_values.kinds_of_extras", dict)
    users_config(tmp_path, f"{name} = 'x'")
    with pytest.raises(SettingsError, match=f"{name} .*comes with the part {name.partition('_')[0]}, which"):
        Settings.load()

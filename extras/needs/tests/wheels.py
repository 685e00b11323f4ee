"""Packages made by hand, in a folder that takes the place of an index: no test needs a network."""

import base64
import hashlib
import io
import os
import tarfile
import zipfile
from pathlib import Path


def make_wheel(folder: Path, name: str, version: str = "1.0", requires: str = "", **files: str) -> Path:
    """Write a wheel with a module of its name; keyword arguments are further files, `x_pth="..."`."""
    folder.mkdir(parents=True, exist_ok=True)
    about = f"{name}-{version}.dist-info"
    content = {
        f"{name}.py": f"VERSION = {version!r}\n",
        **{key.rpartition("_")[0] + "." + key.rpartition("_")[2]: text for key, text in files.items()},
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + (f"Requires-Dist: {requires}\n" if requires else ""),
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in content.items())
    place = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(place, "w") as wheel:
        for path, text in {**content, f"{about}/RECORD": f"{record}{about}/RECORD,,\n"}.items():
            wheel.writestr(path, text)
    return place


def make_source(folder: Path, name: str, setup: str) -> Path:
    """Write a source distribution, which is only installed by running its `setup`."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{name}-1.0.tar.gz"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    with tarfile.open(place, "w:gz") as archive:
        for path, text in {"PKG-INFO": about, "setup.py": setup}.items():
            member = tarfile.TarInfo(f"{name}-1.0/{path}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return place


def offline(folder: Path) -> dict[str, str]:
    """Return the environment of a user whose packages come from a folder alone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    return {
        **kept,
        "PIP_FIND_LINKS": str(folder),
        "PIP_NO_INDEX": "1",
        "UV_NO_CACHE": "1",
        "UV_NO_INDEX": "1",
        "UV_FIND_LINKS": str(folder),
        "PIP_NO_CACHE_DIR": "1",
    }


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()

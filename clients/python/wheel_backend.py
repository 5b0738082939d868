"""Builds the wheel with the standard library alone (PEP 517): pip finds it by pyproject.toml."""

import base64
import hashlib
import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).parent


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    name = f"{project['name']}-{project['version']}"
    info = f"{name}.dist-info"
    files = {f"amberfs/{p.name}": p.read_bytes() for p in sorted((HERE / "amberfs").iterdir()) if p.suffix in (".py", ".typed")}
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\nSummary: {project['description']}\n"
        f"License: {project['license']['text']}\nRequires-Python: {project['requires-python']}\n"
        f"Description-Content-Type: text/markdown\n\n{(HERE / project['readme']).read_text()}"
    ).encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: amberfs\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = f"{info}/RECORD"
    lines = [f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(b).digest()).rstrip(b'=').decode()},{len(b)}\n" for path, b in files.items()]
    files[record] = "".join([*lines, f"{record},,\n"]).encode()
    wheel = f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as z:
        for path, b in files.items():  # a file has no time of its own, so the wheel is the same each time
            z.writestr(zipfile.ZipInfo(path), b, zipfile.ZIP_DEFLATED)
    return wheel

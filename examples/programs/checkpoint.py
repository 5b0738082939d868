"""Tries steps in a workspace, and goes back when one fails. Files, nothing else."""
import json
import os
import subprocess
import sys

ws, commands = sys.argv[1], sys.argv[2:]
control = os.path.join(ws, ".snapshots")


def snapshot(message):
    with open(f"{control}/create", "w") as f:
        f.write(f"try-{os.getpid()}-{len(os.listdir(control))} {message}\n")
    with open(f"{control}/create") as f:
        return json.load(f)["name"]


for command in commands:
    before = snapshot(f"before {command}")
    if subprocess.run(command, shell=True, cwd=ws).returncode != 0:
        os.rename(f"{control}/restore", f"{control}/restore@{before}")
        print(f"{command}: failed, and undone")

"""Reset, attempt, score, keep: runs a command in forks until one scores enough."""
import json
import os
import subprocess
import sys

ws, attempts, enough, score, command = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4], sys.argv[5]


def call(**request):
    path = f"{ws}/.snapshots/call.{os.getpid()}"
    with open(path, "w") as f:
        json.dump(request, f)
    with open(path) as f:
        return json.load(f)


best, best_score = None, float("-inf")
for i in range(attempts):
    fork = f"try-{os.getpid()}-{i}"
    os.mkdir(f"{ws}/.forks/{fork}")
    here = dict(shell=True, cwd=f"{ws}/.forks/{fork}", env={**os.environ, "ATTEMPT": str(i)})
    subprocess.run(command, **here)
    result = subprocess.run(score, capture_output=True, text=True, **here)
    points = float(result.stdout) if result.returncode == 0 else float("-inf")
    loser, (best, best_score) = (best, (fork, points)) if points > best_score else (fork, (best, best_score))
    if loser:
        call(op="delete-fork", name=loser, discard=True)
    if best_score >= enough:
        break
print(json.dumps(call(op="merge", fork=best)))
call(op="delete-fork", name=best, discard=True)

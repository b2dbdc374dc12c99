"""Run code in a fresh Python process, wherever the tests were started from."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What a machine without an accelerator looks like to torch.
NO_DEVICES = {
    "CUDA_VISIBLE_DEVICES": "",
    "HIP_VISIBLE_DEVICES": "",
    "ZE_AFFINITY_MASK": "",
}


def run_python(code, *args, cwd, env=(), timeout=120):
    """Run `code` in a new interpreter and return the finished process.

    ``sys.argv[1:]`` is `args`; ``skmethods`` and ``tests`` can be imported. The
    caller judges the exit status.
    """
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, args)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": path} | dict(env),
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def output_of(code, *args, cwd, env=(), timeout=120):
    """Standard output of `code`, which must succeed."""
    done = run_python(code, *args, cwd=cwd, env=env, timeout=timeout)
    assert done.returncode == 0, f"the child process failed:\n{done.stderr}"
    return done.stdout

"""The tour: every method once on bundled real data, beside its peer.

To add a method, put a ``Row`` into ``ROWS`` of the task's file; a new task's file is
named in ``TASKS``.
"""

import argparse
import importlib
import json
import sys
import time
import traceback
import warnings

TASKS = ("anomaly", "optim", "symbolic")

COLUMNS = (
    ("method", 8),
    ("task", 29),
    ("data", 31),
    ("metric", 8),
    ("ours", 6),
    ("peer (name)", 28),
    ("seconds", 7),
)


def _rows():
    return [
        row
        for task in TASKS
        for row in importlib.import_module(f"{__name__}.{task}").ROWS
    ]


def _line(cells):
    return " | ".join(
        f"{cell:>{width}}" if name in ("ours", "seconds") else f"{cell:<{width}}"
        for cell, (name, width) in zip(cells, COLUMNS, strict=True)
    ).rstrip()


def _run(row, quick, device):
    """The facts of one row, as a dict that JSON can hold."""
    facts = {
        "method": row.method,
        "task": row.task,
        "data": row.data,
        "metric": row.metric,
        "peer_name": row.peer,
    }
    start = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = row.run(quick=quick, device=device)
    except Exception as exc:
        facts["error"] = f"{type(exc).__name__}: {exc}"
        facts["traceback"] = traceback.format_exc()
    else:
        facts |= {
            "ours": float(result.ours),
            "peer": float(result.peer),
            "peer_name": result.peer_name or row.peer,
            "beats_or_matches": bool(result.beats_or_matches),
            "note": result.note,
            "warnings": sorted({f"{w.category.__name__}: {w.message}" for w in caught}),
        }
    facts["seconds"] = round(time.perf_counter() - start, 2)
    return facts


def _cells(facts):
    start = [facts[k] for k in ("method", "task", "data", "metric")]
    if "error" in facts:
        return [*start, "FAILED", "", f"{facts['seconds']:.1f}"]
    peer = f"{facts['peer']:.3f} ({facts['peer_name']})"
    return [*start, f"{facts['ours']:.3f}", peer, f"{facts['seconds']:.1f}"]


def _parse(argv, names):
    parser = argparse.ArgumentParser(
        prog="skmethods",
        description="Run every method once on bundled real data beside its peer.",
    )
    parser.add_argument(
        "methods", nargs="*", metavar="METHOD", help="only these (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help="less data, sooner done")
    parser.add_argument("--device", default="cpu", help="where torch computes")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--list", action="store_true", help="name the methods and stop")
    args = parser.parse_args(argv)
    known = {name.lower(): name for name in names}
    unknown = [m for m in args.methods if m.lower() not in known]
    if unknown:
        parser.error(
            f"unknown method {', '.join(unknown)}; choose from {', '.join(names)}"
        )
    args.methods = {known[m.lower()] for m in args.methods} or set(names)
    return args


def main(argv):
    """Run the tour.

    Parameters
    ----------
    argv : list of str
        Arguments of the command line, without the program's name.

    Returns
    -------
    int
        1 if a method failed to run, else 0.
    """
    rows = _rows()
    args = _parse(argv, [row.method for row in rows])
    if args.list and args.json:
        words = ("method", "task", "data", "metric", "peer")
        print(json.dumps([{w: getattr(row, w) for w in words} for row in rows]))
        return 0
    if args.list:
        for row in rows:
            print(f"{row.method:<10} {row.task}: {row.data}, beside {row.peer}")
        return 0

    if not args.json:
        header = _line([name for name, _ in COLUMNS])
        print(header, "-" * len(header), sep="\n", flush=True)
    facts = []
    for row in rows:
        if row.method in args.methods:
            facts.append(_run(row, args.quick, args.device))
            if not args.json:
                print(_line(_cells(facts[-1])), flush=True)
                if facts[-1].get("note"):
                    print(f"{'':>8}   {facts[-1]['note']}", flush=True)
                if "error" in facts[-1]:
                    print(facts[-1]["traceback"], file=sys.stderr)

    ran = [f for f in facts if "error" not in f]
    better = sum(f["beats_or_matches"] for f in ran)
    failed = len(facts) - len(ran)
    if args.json:
        summary = {
            "ran": len(ran),
            "failed": failed,
            "beat_or_match": better,
            "device": args.device,
            "quick": args.quick,
            "seed": 0,
        }
        print(json.dumps({"rows": facts, "summary": summary}, indent=2))
    else:
        text = f"{len(ran)} methods ran; {better} beat or match their peer"
        text += f"; {failed} failed" if failed else ""
        print(f"{text}; {args.device}, seed 0")
    return 1 if failed else 0

"""The table of attacks and faults in docs/security.md."""

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.common import RESULTS, load

Row = tuple[str, str, str]
"""What was tested, the number of cases with the number that is the goal, and the result."""


def table() -> str:
    """Return the table; a test without results has a row that says so."""
    lines = ["| test | cases (goal) | result |", "|---|---|---|"]
    for name, (rows, what) in _TESTS.items():
        found = load(name) if (RESULTS / f"{name}.json").exists() else None
        cells = [(what, "0", "not run yet")] if found is None else rows(found)
        lines += [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join(lines)


def _fault_rows(found: dict[str, Any]) -> Iterator[Row]:
    what = {
        "kill": ("killed, then run again", 100, "ended as a run that was not killed"),
        "full": ("disk full, then run again", 25, "printed a sentence and lost nothing"),
        "read-only": ("disk read-only, then run again", 25, "printed a sentence and lost nothing"),
    }
    for fault, (text, goal, result) in what.items():
        each = found["summary"][fault]
        commands = {case["command"] for case in found["cases"] if case["fault"] == fault}
        listed = ", ".join(f"`{name}`" for name in sorted(commands))
        yield f"{listed}: {text}", f"{each['cases']} ({goal})", f"{each['good']} {result}"


def _file_rows(found: dict[str, Any]) -> Iterator[Row]:
    kinds = found["kinds"].values()
    total, loaded, refused = (
        sum(each.get(key, 0) for each in kinds) for key in ("cases", "loaded", "refused")
    )
    n_faults = sum(len(each["faults"]) for each in kinds)
    checked = ", with bounds checks of Numba" if found.get("bounds") else ""
    yield (
        f"mutated files of {len(found['kinds'])} kinds{checked}",
        f"{total:,} (100,000)",
        f"{refused:,} refused with a sentence, {loaded:,} loaded and used, {n_faults} other errors",
    )


def _image_rows(found: dict[str, Any]) -> Iterator[Row]:
    hostile = found["hostile"].values()
    yield (
        "damaged images, read from files",
        f"{found['cases']:,} (100,000)",
        f"{found['refused']:,} refused with a sentence, {found['read']:,} read, "
        f"{len(found['faults'])} other errors; the slowest took {found['slowest_ms']:.0f} ms",
    )
    n_refused = sum(result == "refused" for result in hostile)
    yield "images made to do harm", f"{len(hostile)}", f"{n_refused} refused with a sentence"


def _upload_rows(found: dict[str, Any]) -> Iterator[Row]:
    yield (
        "damaged images, uploaded",
        f"{found['n_mutated_images']:,} (100,000)",
        f"statuses {', '.join(found['statuses'])}; memory growth {found['growth_mib']:.0f} MiB",
    )
    generated, _, rest = found["schemathesis"].partition(" generated, ")
    yield (
        "requests generated from the description of the API",
        f"{int(generated):,} (50,000)",
        rest,
    )


def _attack_rows(found: dict[str, Any]) -> Iterator[Row]:
    commands, server = found["commands"].values(), found["server"]
    kinds = server["kinds"].values()
    good = sum(each["good"] for each in (*commands, *kinds))
    slowest, largest = (max(each[what] for each in commands) for what in ("seconds", "mib"))
    health = max(each["longest_health_ms"] for each in kinds)
    yield (
        "kinds of files and requests made by hand to do harm",
        f"{len(commands) + len(kinds)} (70)",
        f"{good} ended as documented; commands took at most {slowest:.0f} s and {largest} MiB; "
        f"with up to {server['connections']} connections `/healthz` took at most {health} ms, "
        f"recovery at most {max(each['recovery_s'] for each in kinds):.1f} s; memory growth of the "
        f"server {server['growth_mib']:.0f} MiB, log {server['log_bytes']:,} bytes",
    )


def _soak_rows(found: dict[str, Any]) -> Iterator[Row]:
    yield (
        f"{found['clients']} clients, model replaced {found['replacements']} times",
        f"{found['seconds'] / 60:.0f} minutes (30)",
        f"{found['requests']:,} requests, {found['failed']} failed; memory growth "
        f"{found['growth_mib']:.0f} MiB",
    )


_TESTS: dict[str, tuple[Callable[[dict[str, Any]], Iterator[Row]], str]] = {
    "faults": (_fault_rows, "commands killed, on full and on read-only disks"),
    "fuzz_files": (_file_rows, "mutated files"),
    "fuzz_files_bounds": (_file_rows, "mutated files, with bounds checks of Numba"),
    "fuzz_images": (_image_rows, "damaged images, read from files"),
    "serving_fuzz": (_upload_rows, "damaged images, uploaded"),
    "attacks": (_attack_rows, "kinds of files and requests made by hand to do harm"),
    "soak": (_soak_rows, "20 clients, model replaced five times"),
}
"""Results files, the rows that they become, and what a missing one would have tested."""

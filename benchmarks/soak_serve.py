"""Load a server for a long time while its model is replaced, and watch its memory.

python -m benchmarks.soak_serve [--minutes 1] [--full]

Twenty clients send photographs, each its next request as soon as it has the response. Meanwhile the
model is written anew five times to the folder from which it is served. No request may fail, and
memory may grow by `MAX_GROWTH_MIB` after a first minute in which caches are filled. `--full` takes
30 minutes.
"""

import argparse
import json
import sys
import tempfile
import threading
from pathlib import Path

from benchmarks.clients import generate_load
from benchmarks.common import write_results
from benchmarks.fuzz_files import small_model, small_scenes
from benchmarks.serving import MEDIA_TYPE, multipart, run_server
from supdocnade.images.decode import encode

N_CLIENTS, N_REPLACEMENTS, MAX_GROWTH_MIB = 20, 5, 50.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--full", action="store_true", help="30 minutes")
    given = parser.parse_args()
    seconds = 60 * (30.0 if given.full else given.minutes)
    body = multipart([encode(each.image, "JPEG") for each in small_scenes()[:2]])
    done, replaced = threading.Event(), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "model"
        small_model().save(folder)

        def replace_model() -> None:
            nonlocal replaced
            while replaced < N_REPLACEMENTS and not done.wait(seconds / (N_REPLACEMENTS + 1)):
                small_model().save(folder)
                replaced += 1

        with run_server(folder) as server:
            url, warm_up = f"{server.url}v1/predict", min(60.0, seconds / 2)
            generate_load(url, body, MEDIA_TYPE, clients=N_CLIENTS, seconds=warm_up)
            before = server.resident_mib()
            writer = threading.Thread(target=replace_model)
            writer.start()
            found = generate_load(url, body, MEDIA_TYPE, clients=N_CLIENTS, seconds=seconds)
            done.set()
            writer.join()
            growth = server.resident_mib() - before
    results = {
        "clients": N_CLIENTS,
        "seconds": seconds,
        "replacements": replaced,
        **{key: found[key] for key in ("requests", "answered", "refused", "failed")},
        "growth_mib": growth,
    }
    print(json.dumps(results))
    write_results("soak", results)
    if found["failed"] or growth > MAX_GROWTH_MIB or replaced < N_REPLACEMENTS:
        sys.exit("The server failed some requests or its memory grew; see benchmarks/results/.")


if __name__ == "__main__":
    main()

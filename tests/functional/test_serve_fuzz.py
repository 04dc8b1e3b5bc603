"""The API against images that were tampered with and against its own description.

`make fuzz-serve` does the same for long.
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
import schemathesis
from benchmarks.fuzz_serve import ALLOWED, tampered
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS
from tests.serving import build_index, make_client, photograph, run_threaded_server, upload_form

N_IMAGES, PER_REQUEST, N_EXAMPLES = 240, 8, 8


def test_damaged_images_are_problems_and_nothing_worse(tmp_path):
    path = tmp_path / "photo.jpg"
    path.write_bytes(photograph(0))
    images = list(tampered(path, N_IMAGES, seed=1))
    assert len(set(images)) > 0.9 * N_IMAGES
    outcomes = Counter()
    with make_client() as server, ThreadPoolExecutor(4) as pool:

        def ask(start):
            sent = images[start : start + PER_REQUEST]
            answer = server.post("/v1/predict", files=upload_form(*sent))
            assert answer.status_code in ALLOWED, answer.text
            if answer.status_code == 200:
                body = answer.json()
                assert len(body["predictions"]) + len(body["errors"]) == len(sent)
                outcomes["read"] += len(body["predictions"])
                outcomes.update(each["code"] for each in body["errors"])
            assert server.post("/v1/explain", files=upload_form(sent[0])).status_code in ALLOWED

        list(pool.map(ask, range(0, N_IMAGES, PER_REQUEST)))
        assert server.service.workers.n_alive == server.service.settings.n_workers
        assert server.service.memory.used == 0
    # Many are read as well: the damage is not all in the first bytes.
    assert outcomes["read"] > N_IMAGES / 10
    assert outcomes["unreadable_image"] > N_IMAGES / 10


CHECKED = [check for check in CHECKS.get_all() if check.__name__ != "positive_data_acceptance"]
"""All but one: a schema cannot say that bytes are an image, so images that it makes up are
refused."""


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_the_api_does_what_its_description_says(mode, tmp_path):
    gallery, _ = build_index(tmp_path)
    statuses = Counter()
    with run_threaded_server(gallery) as (server, _):
        described = schemathesis.openapi.from_url(f"{server.base_url}/openapi.json")
        operations = [found.ok() for found in described.get_all_operations()]
        assert len(operations) >= 14
        for operation in operations:
            _try(operation, mode, statuses)
    assert statuses[200] > 0 if mode is GenerationMode.POSITIVE else statuses[422] > 0


def _try(operation, mode, statuses):
    """Make requests of one operation, and check their answers."""

    @settings(
        max_examples=N_EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def requests(case):
        response = case.call()
        statuses[response.status_code] += 1
        case.validate_response(response, checks=CHECKED)

    # Operations that take nothing cannot be asked wrongly.
    with suppress(Unsatisfiable):
        requests()

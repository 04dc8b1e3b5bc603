"""The API against damaged images and against its own description; `make fuzz-serve` runs longer."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
import schemathesis
from benchmarks.fuzz_serve import ALLOWED, EXCLUDED_CHECK, damaged_images
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS
from tests.serving import build_index, make_client, photograph, run_threaded_server, upload_form

from supdocnade.scene.corrections import CorrectionFile, read_corrections

N_IMAGES, IMAGES_PER_REQUEST, N_EXAMPLES = 240, 8, 8


def test_damaged_images_are_problems_and_nothing_worse(tmp_path):
    path = tmp_path / "photo.jpg"
    path.write_bytes(photograph(0))
    images = list(damaged_images(path, N_IMAGES, seed=1))
    assert len(set(images)) > 0.9 * N_IMAGES
    outcomes = Counter()
    with make_client() as client, ThreadPoolExecutor(4) as pool:

        def send(start):
            sent = images[start : start + IMAGES_PER_REQUEST]
            response = client.post("/v1/predict", files=upload_form(*sent))
            assert response.status_code in ALLOWED, response.text
            if response.status_code == 200:
                body = response.json()
                assert len(body["predictions"]) + len(body["errors"]) == len(sent)
                outcomes["read"] += len(body["predictions"])
                outcomes.update(each["code"] for each in body["errors"])
            explained = client.post("/v1/explain", files=upload_form(sent[0]))
            assert explained.status_code in ALLOWED

        list(pool.map(send, range(0, N_IMAGES, IMAGES_PER_REQUEST)))
        assert client.service.n_waiting == 0
        assert client.service.memory.used == 0
    # Many are readable: the damage is not always in the first bytes.
    assert outcomes["read"] > N_IMAGES / 10
    assert outcomes["unreadable_image"] > N_IMAGES / 10


@pytest.fixture(scope="module")
def server_url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gallery")
    gallery, _ = build_index(folder)
    path = folder / "corrections.jsonl"
    with run_threaded_server(gallery, CorrectionFile(path)) as (client, _):
        yield client.base_url
    read_corrections(path)  # Whatever was sent, the file is valid.


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_api_conforms_to_its_description(mode, server_url):
    statuses = Counter()
    description = schemathesis.openapi.from_url(f"{server_url}/openapi.json")
    operations = [result.ok() for result in description.get_all_operations()]
    assert len(operations) >= 15
    for operation in operations:
        send_generated_requests(operation, mode, statuses)
    assert statuses[200] > 0 if mode is GenerationMode.POSITIVE else statuses[422] > 0


def send_generated_requests(operation, mode, statuses):
    """Send generated requests of one operation, and check the responses."""
    checks = [check for check in CHECKS.get_all() if check.__name__ != EXCLUDED_CHECK]

    @settings(
        max_examples=N_EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case):
        response = case.call()
        statuses[response.status_code] += 1
        case.validate_response(response, checks=checks)

    # Operations without parameters have no invalid requests.
    with suppress(Unsatisfiable):
        send()

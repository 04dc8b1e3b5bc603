from benchmarks import fuzz_images


def test_cases_are_reproducible_and_different():
    first, again = (list(fuzz_images.damaged_files(20, seed=3)) for _ in range(2))
    assert first == again
    assert len(set(first)) > 15


def test_a_fault_is_reported():
    class Broken:
        def encode(self, content, name):
            raise KeyError(name)

    assert fuzz_images.read_case(Broken(), b"") == "fault: KeyError: 'x.jpg'"

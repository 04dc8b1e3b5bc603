import pytest

from supdocnade.checks import check_seed
from supdocnade.errors import InvalidArgument


@pytest.mark.parametrize(
    ("seed", "message"), [(-1, "between 0"), (2**63, "between 0"), (1.5, "integer")]
)
def test_seeds_out_of_range_are_refused(seed, message):
    with pytest.raises(InvalidArgument, match=f"random_state must be .*{message}"):
        check_seed("random_state", seed)

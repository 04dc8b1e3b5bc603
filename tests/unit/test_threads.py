import os
import subprocess
import sys


def test_a_library_that_is_loaded_later_is_limited_too():
    """numpy and scipy bring a BLAS each."""
    code = """
from supdocnade.threads import one_blas_thread
with one_blas_thread():
    pass
import scipy.linalg
from threadpoolctl import threadpool_info
with one_blas_thread():
    print({each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"})
"""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert (run.returncode, run.stdout.strip()) == (0, b"{1}"), run.stderr

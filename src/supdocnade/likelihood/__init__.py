"""The hot operations, each with several implementations behind one contract (`contract.py`).

`tree_nll` and `softmax_nll` are packages named like their one function; import it from there.
"""

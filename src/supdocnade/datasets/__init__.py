"""Data to learn from, read from disk, drawn, or downloaded on request.

========== =========================================================================
module     what is there
========== =========================================================================
records    one photograph with its class and tags; which photographs are copies
splits     training and test sets by class, also the paper's three
folder     photographs in folders, one a class, with optional classes and tags
metadata   the files that give classes and tags to the photographs of a folder
scenes     Scene15, LabelMe and UIUC-Sports as they are distributed
bags       word counts in LDA-C format, and their labels
lines      text files, and what is wrong in which line of them
download   the data sets' archives from their own addresses
archives   safe unpacking
synthetic  corpora whose truth is known
========== =========================================================================
"""

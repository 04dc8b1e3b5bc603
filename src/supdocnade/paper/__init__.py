"""The paper's experiments, from photographs to a page.

========== =====================================================================================
module     what is there
========== =====================================================================================
photosets  the data sets as the experiments take them
copies     which photographs show the same picture
protocol   the development pool and the splits, fixed once
words      photographs as words, in files small enough to travel
recipes    named recipes: as in the paper, its 45-topic configuration, ours
plans      the experiments as lists of what is tuned, trained and compared
study      the folder of one study
models     training topic models: needs words alone
answers    choosing on photographs held out, and testing
svms       kernel SVMs with one grid for all
yardsticks methods without our topic models; slda: supervised LDA by tomotopy
statistics paired bootstrap and corrected t
results    results.json and what lies behind it
claims     what should be true, and whether it is
reported   what the paper reports
page       all of it as a page; tables, figures and shown are its parts
running    the stages, in their order
========== =====================================================================================
"""

"""The paper's experiments, from photographs to a page: `python -m experiments.paper`.

============ ===============================================================================
data_sets    the paper's data sets: readers and the photographs of an experiment
protocol     development pool and splits, with near-duplicates kept together
words        visual words of photographs in small files
plans        recipes and methods that are tuned, trained and compared
study        the folder of one study
kernel_svm   kernel SVMs with one grid for all methods
topic_models training, choice of hyper-parameters and test predictions
baselines    methods without our topic models, and sLDA by tomotopy
results      results.json, the scores behind it, provenance and examples
claims       claims, targets and statistics; the numbers that the paper reports
page         tables and charts as a page
stages       the stages of a study, in their order
============ ===============================================================================
"""

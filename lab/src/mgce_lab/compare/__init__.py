"""Run the experiments of `mgce-lab compare`, `mgce-lab reproduce`, `mgce-lab benchmark` and `mgce demo`.

A *run* trains one or more networks. Its *specification* contains everything that the results depend on. Its *records*
are the results: for each network a dict of numbers and words, such as method, beta, seed and test accuracy. The
modules here plan runs and render records into tables and figures. `mgce_lab.engine` executes runs and stores their
records.
"""

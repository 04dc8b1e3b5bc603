"""What all tests share."""

# Scripts that made golden arrays need the programs that are compared with.
collect_ignore_glob = ["golden/*.py"]

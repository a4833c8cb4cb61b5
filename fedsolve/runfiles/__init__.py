"""Run files, the names they may use, and the problem they describe."""

"""The loop that drives an algorithm: run, measure, confirm, stop, save."""

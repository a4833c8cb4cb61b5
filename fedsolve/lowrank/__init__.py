"""Gradients of clients as combinations of the server's own sample gradients."""

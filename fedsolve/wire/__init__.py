"""Values to bytes and back, messages, contracts of client steps, and files on disk."""

"""Columns and labels of tables, matched by name and never by place."""

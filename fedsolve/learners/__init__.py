"""Weak learners: functions that boosting adds up, fitted at clients and sent as arrays."""

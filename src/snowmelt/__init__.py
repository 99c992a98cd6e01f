"""Snowmelt."""

"""Tests of snowmelt.page."""

"""Tests of snowmelt.runtime."""

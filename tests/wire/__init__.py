"""Tests of snowmelt.wire."""

"""Tests of snowmelt.client."""

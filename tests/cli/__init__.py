"""Tests of the snowmelt program."""

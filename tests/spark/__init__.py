"""Tests of snowmelt.spark."""

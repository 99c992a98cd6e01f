"""The application that has the worker's command."""

from django.apps import AppConfig


class SnowmeltConfig(AppConfig):
    """`snowmelt_doors.django` in `INSTALLED_APPS`."""

    name = "snowmelt_doors.django"
    label = "snowmelt"
    verbose_name = "Snowmelt"

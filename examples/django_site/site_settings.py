"""A site of one page, whose letters are posted by tasks."""

import os

import django

SECRET_KEY = os.environ.get("SECRET_KEY", "only for trying it out")
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "testserver"]
ROOT_URLCONF = "letters.urls"
USE_TZ = True
INSTALLED_APPS = ["letters", "snowmelt_doors.django"]
if django.VERSION < (6, 0):
    INSTALLED_APPS.append("django_tasks")

TASKS = {
    "default": {
        "BACKEND": "snowmelt_doors.django.backend.SnowmeltTaskBackend",
        "QUEUES": ["default", "bulk"],
        "OPTIONS": {
            "where": os.environ.get("SNOWMELT_URL", "snowmelt://127.0.0.1:4410"),
            "retention": 7 * 86_400,
        },
    }
}
